"""Which tags in my CSV are wrong? Mixed columns in, verdicts and a cleaned CSV out; the same as `propml audit`."""

import numpy as np

from propml.auditing import audit
from propml.tables import learn_features, read_table, write_cleaned

# A file such as people have: numbers with gaps, a category, text, and tags of which some are wrong.
rng = np.random.default_rng(0)
PLACES = {"beach": "sand and waves", "city": "streets and lights", "forest": "trees and moss", "snow": "ice and wind"}
lines = ["id,brightness,camera,caption,tags"]
for i in range(240):
    true = rng.choice(list(PLACES))
    wrong = rng.choice([place for place in PLACES if place != true])
    words = f"{PLACES[true]} on day {i}" if rng.random() < 0.9 else "no caption"
    light = "" if rng.random() < 0.1 else f"{rng.normal(list(PLACES).index(true), 1):.2f}"
    tags = f"{true};{wrong}" if rng.random() < 0.5 else true
    lines.append(f"img{i},{light},{rng.choice(['phone', 'Canon'])},{words},{tags}")
with open("photos.csv", "w", encoding="utf-8") as file:
    file.write("\n".join(lines) + "\n")

table = read_table("photos.csv", candidates="tags", id_column="id", text="caption")
learned = learn_features(table)
print(learned.features)  # what became of each column

report = audit(learned.X, table.candidates)
print(report.worst(5))
write_cleaned(table, report.cleaned(), "cleaned.csv")
before, after = table.candidates.sizes().sum(), report.cleaned().sizes().sum()
print(f"{before - after} of {before} tags were dropped; the others are in cleaned.csv")
