"""Pictures of coloured shapes and digits, and what may be asked and answered about them."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

SIDE, CELL = 96, 32
COLOURS = {
    "red": (214, 40, 40),
    "green": (40, 160, 70),
    "blue": (40, 80, 210),
    "yellow": (240, 200, 40),
    "orange": (240, 130, 20),
    "purple": (140, 60, 170),
    "black": (25, 25, 25),
}
SHAPES = ("circle", "square", "triangle", "cross")
KINDS = (*SHAPES, *"0123456789")
CELLS = (
    "at the top left",
    "at the top",
    "at the top right",
    "on the left",
    "in the middle",
    "on the right",
    "at the bottom left",
    "at the bottom",
    "at the bottom right",
)
NUMBERS = ("nothing", "one thing", "two things", "three things")
TALK = {
    "Hello! | Hi | Hello, who are you? | Who are you? | What are you? | What can you do?": (
        "I am a very small model that sees. Show me a picture of coloured shapes and digits, and "
        "I will say what is in it."
    ),
    "How many corners does a square have? | Tell me about squares. | What is a square?": (
        "A square has four corners and four sides that are all of the same length."
    ),
    "How many corners does a triangle have? | Tell me about triangles. | What is a triangle?": (
        "A triangle has three corners and three sides."
    ),
    "How many corners does a circle have? | Tell me about circles. | What is a circle?": (
        "A circle has no corners: all its points are equally far from the middle."
    ),
    "What colours do you know? | Which colours are there? | Tell me about colours.": (
        "I know seven colours: red, green, blue, yellow, orange, purple and black."
    ),
    "Thank you! | Thanks | Good, thank you.": "You are welcome. Show me another picture.",
}


class Thing(NamedTuple):
    """A shape or digit of a scene: its colour, its kind, and the cell of 3 x 3 that it is in."""

    colour: str
    kind: str
    cell: int

    @property
    def name(self) -> str:
        """What it is called behind "the" or "no"."""
        return f"{self.colour} {self.kind}"

    @property
    def noun(self) -> str:
        """What it is called with an article."""
        return f"{'an' if self.colour == 'orange' else 'a'} {self.name}"

    @property
    def placed(self) -> str:
        """What it is called with its place."""
        return f"{self.noun} {CELLS[self.cell]}"


class Turn(NamedTuple):
    """A question and its answer."""

    question: str
    answer: str


def draw_scene(draw: Random) -> list[Thing]:
    """One to three different things in different cells, in reading order."""
    count = draw.choice((1, 2, 2, 3, 3))
    cells = sorted(draw.sample(range(9), count))
    names: dict[tuple[str, str], None] = {}
    while len(names) < count:
        is_shape = draw.random() < 0.55
        kind = draw.choice(SHAPES if is_shape else KINDS[len(SHAPES) :])
        names[draw.choice(list(COLOURS)), kind] = None
    return [Thing(*name, cell) for name, cell in zip(names, cells, strict=True)]


def paint(scene: list[Thing], draw: Random, side: int = SIDE) -> Image.Image:
    """Paint a scene on a light ground, with sizes, places and colours a little different."""
    ground = draw.choice(((255, 255, 255), (255, 255, 255), (240, 240, 240), (250, 245, 230)))
    image = Image.new("RGB", (SIDE * 4, SIDE * 4), ground)
    brush = ImageDraw.Draw(image)
    for thing in scene:
        row, column = divmod(thing.cell, 3)
        x, y = (4 * (CELL * (at + 0.5) + draw.uniform(-3, 3)) for at in (column, row))
        size = 4 * draw.uniform(9, 13)
        shades = (channel + draw.randint(-15, 15) for channel in COLOURS[thing.colour])
        colour = tuple(max(0, min(255, shade)) for shade in shades)
        box = (x - size, y - size, x + size, y + size)
        if thing.kind == "circle":
            brush.ellipse(box, colour)
        elif thing.kind == "square":
            brush.rectangle(box, colour)
        elif thing.kind == "triangle":
            brush.polygon(((x, y - size), (x - size, y + size), (x + size, y + size)), colour)
        elif thing.kind == "cross":
            wide = 0.3 * size
            brush.rectangle((x - size, y - wide, x + size, y + wide), colour)
            brush.rectangle((x - wide, y - size, x + wide, y + size), colour)
        else:
            font = ImageFont.load_default(2.6 * size)
            brush.text((x, y), thing.kind, colour, font, anchor="mm", stroke_width=4)
    return image.resize((side, side), Image.Resampling.BOX)


def listed(parts: list[str]) -> str:
    """Join with commas and a last "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def described(scene: list[Thing]) -> str:
    """The things of a scene with their places."""
    return listed([thing.placed for thing in scene])


def ask_about(scene: list[Thing], draw: Random) -> Turn:
    """Draw a question about one scene."""
    thing = draw.choice(scene)
    other = Thing(draw.choice(list(COLOURS)), draw.choice(KINDS), draw.randrange(9))
    asked_for = draw.choice((thing, other))
    cell = draw.choice((thing.cell, thing.cell, draw.randrange(9)))
    at_cell = [each.noun for each in scene if each.cell == cell]
    found = [each for each in scene if each.name == asked_for.name]
    digits = [each.kind for each in scene if each.kind.isdigit()]
    is_only = sum(each.kind == thing.kind for each in scene) == 1
    name = thing.kind if is_only and draw.random() < 0.5 else thing.name
    described_by = draw.choice(
        ("What is in the picture?", "What do you see?", "Describe the picture.")
    )
    counted_by = draw.choice(("How many things are there?", "Count the things."))
    count = f"There {'is' if len(scene) == 1 else 'are'} {NUMBERS[len(scene)]}"
    there = f"Yes, there is {found[0].placed}." if found else f"No, I see no {asked_for.name}."
    turns = [
        *3 * [Turn(described_by, f"I see {described(scene)}.")],
        Turn(counted_by, f"{count}: {listed([each.noun for each in scene])}."),
        Turn(f"Where is the {name}?", f"The {thing.name} is {CELLS[thing.cell]}."),
        Turn(f"What is {CELLS[cell]}?", f"There is {(at_cell or NUMBERS)[0]} {CELLS[cell]}."),
        Turn(f"Is there {asked_for.noun}?", there),
    ]
    if is_only:
        asked = draw.choice(("What colour is the {}?", "Which colour does the {} have?"))
        turns.append(Turn(asked.format(thing.kind), f"The {thing.kind} is {thing.colour}."))
    if digits:
        asked = draw.choice(("Which digits are there?", "Read the digits."))
        word = "digit is" if len(digits) == 1 else "digits are"
        turns.append(Turn(asked, f"The {word} {listed(digits)}."))
    return draw.choice(turns)


def ask_about_two(first: list[Thing], second: list[Thing], draw: Random) -> Turn:
    """Draw a question about two scenes that were shown together."""
    what = draw.randrange(3)
    if what == 0:
        number = draw.randrange(2)
        asked = f"What is in the {('first', 'second')[number]} picture?"
        return Turn(asked, f"I see {described((first, second)[number])}.")
    asked = draw.choice(("What is in the pictures?", "What do you see?", "Describe both pictures."))
    return Turn(
        asked, f"The first picture shows {described(first)}. The second shows {described(second)}."
    )


def talk(draw: Random) -> Turn:
    """Draw a question that needs no picture."""
    asked, answer = draw.choice(list(TALK.items()))
    return Turn(draw.choice(asked.split(" | ")), answer)
