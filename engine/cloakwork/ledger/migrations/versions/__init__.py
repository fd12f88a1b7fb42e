"""One script a layout, in order; a script that was released is never changed."""
