"""Write the tables of the README and the tutorials: `photos.csv`, `tickets.csv`, `reviews.csv` and their companions.

All of it is made up. The labels that are true are known while a table is written; what the tables hold is what
careless taggers, annotators and language models would have said instead.
"""

import csv
import random
from pathlib import Path

HERE = Path()
PLACES = {
    "beach": ["sand between the toes", "waves and gulls", "towels by the water", "children with buckets"],
    "city": ["streets after work", "trams and shop windows", "towers of glass", "people at a crossing"],
    "forest": ["moss on old trunks", "a path under trees", "mushrooms and leaves", "deer far away"],
    "night": ["stars above us", "lights in the dark", "long after sunset", "a full moon"],
    "snow": ["ice on the branches", "skis and wind", "a white slope", "frozen hands"],
}
TOPICS = {
    "billing": ["I was charged twice", "the invoice is wrong", "where is my refund", "my card was declined"],
    "login": ["the password reset never comes", "I am locked out", "two-factor codes fail", "cannot sign in"],
    "crash": ["the app closes at once", "it freezes on start", "an error after the update", "a blank screen"],
    "delivery": ["the parcel is late", "the tracking page is empty", "it went to my old address", "half is missing"],
}
ASPECTS = {
    "price": ["far too expensive", "worth every cent", "cheaper elsewhere", "a fair price"],
    "quality": ["broke after a week", "solid and well made", "the seams came apart", "feels like plastic"],
    "service": ["nobody answered my mail", "a friendly support team", "they called me back", "rude on the phone"],
    "shipping": ["arrived two weeks late", "came the next day", "the box was crushed", "carefully packed"],
}


def write(name: str, header: list[str], rows: list[list[object]]) -> None:
    with open(HERE / name, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    print(f"{name}: {len(rows)} rows")


def about(phrases: dict[str, list[str]], draw: random.Random) -> tuple[list[str], str]:
    """One or two labels that are true, and a text that speaks of them."""
    true = draw.sample(sorted(phrases), 1 + (draw.random() < 0.4))
    return true, ", ".join(draw.choice(phrases[label]) for label in true)


def proposed(true: list[str], labels: list[str], found: float, false: float, draw: random.Random) -> list[str]:
    """What somebody says who finds a true label with one probability, and adds a false one with another."""
    return [label for label in labels if draw.random() < (found if label in true else false)]


def photos(draw: random.Random) -> None:
    rows = []
    for i in range(300):
        true, caption = about(PLACES, draw)
        light = draw.gauss(0.25 if "night" in true else 0.6, 0.1)
        tags = sorted({*true, *proposed(true, sorted(PLACES), 1.0, 0.25, draw)})
        camera = draw.choice(["phone", "compact", "mirrorless"])
        brightness = "" if draw.random() < 0.08 else f"{light:.2f}"
        rows.append([f"photo{i:03}.jpg", brightness, camera, caption, ";".join(tags), ";".join(sorted(true))])
    write("photos.csv", ["file", "brightness", "camera", "caption", "tags"], [row[:5] for row in rows[:240]])
    checked = [[*row[:4], row[5]] for row in rows[240:]]
    write("new_photos.csv", ["file", "brightness", "camera", "caption", "checked"], checked)


def tickets(draw: random.Random) -> None:
    people = {"ann": (0.95, 0.03), "bob": (0.85, 0.08), "cleo": (0.8, 0.05), "dan": (0.5, 0.45)}
    rows, votes = [], []
    for i in range(200):
        true, text = about(TOPICS, draw)
        rows.append([f"T{i:03}", draw.choice(["mail", "chat", "phone"]), text])
        for name, (found, false) in people.items():
            if draw.random() < 0.75:
                said = proposed(true, sorted(TOPICS), found, false, draw)
                votes += [[f"T{i:03}", name, label] for label in said or [""]]
    write("tickets.csv", ["ticket", "channel", "text"], rows)
    write("ticket_votes.csv", ["ticket", "annotator", "label"], votes)


def reviews(draw: random.Random) -> None:
    models = {"model_a": (0.95, 0.1), "model_b": (0.9, 0.25), "model_c": (0.7, 0.02)}
    rows = []
    for i in range(200):
        true, text = about(ASPECTS, draw)
        said = [";".join(proposed(true, sorted(ASPECTS), *rates, draw)) for rates in models.values()]
        rows.append([f"R{i:03}", draw.randint(1, 5), text, *said])
    write("reviews.csv", ["review", "stars", "text", *models], rows)


for number, make in enumerate((photos, tickets, reviews)):
    make(random.Random(number))
