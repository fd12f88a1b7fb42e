"""Names of invented people."""

from typing import Final

from invented.process import Dice

FIRST_NAMES: Final = (
    "Acorn", "Bramble", "Clover", "Dapple", "Ember", "Fennel", "Gingham", "Hazel", "Indigo", "Juniper", "Kestrel", "Lichen",
    "Marigold", "Nettle", "Olive", "Pepper", "Quill", "Rowan", "Sorrel", "Thistle", "Umber", "Velvet", "Willow", "Yarrow",
    "Zinnia",
)  # fmt: skip

LAST_NAMES: Final = (
    "Anyperson", "Bogusson", "Cardboard", "Dummyfield", "Examplar", "Fictive", "Fabricatus", "Inventson", "Madeup",
    "Mockington", "Nobodysson", "Nonesuch", "Placeholder", "Pretendly", "Sampleton", "Someoneova", "Specimen", "Standin",
    "Testcase", "Unreal",
)  # fmt: skip


def invent_name(dice: Dice) -> str:
    """A first name and a last name."""
    first = dice.one_of(FIRST_NAMES)
    last = dice.one_of(LAST_NAMES)
    return f"{first} {last}"
