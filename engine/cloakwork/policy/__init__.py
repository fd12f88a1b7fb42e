"""The privacy policy: its language, its loading, the shipped ones."""
