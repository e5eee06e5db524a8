"""Facts about drawn figures that several tests ask for."""

from propml.benchmark.figures.style import measuring_renderer
from propml.benchmark.results import Result


def labelled(artists, label):
    """The artists that a figure's code gave this label."""
    return [artist for artist in artists if artist.get_label() == label]


def all_inside(figure):
    """Whether everything that is drawn, letters included, lies on the figure."""
    renderer = measuring_renderer(figure)
    figure.draw(renderer)
    drawn, (width, height) = figure.get_tightbbox(renderer), figure.get_size_inches()
    return min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.01


def measured_like(published, shift=-1.0, folds=(-0.5, 0.5)):
    """Results of two folds: their mean is the published one plus ``shift`` percent, their deviation half a percent."""
    return [
        Result("a", row.dataset, row.noise, row.method, 0, fold, row.metric, (row.mean + shift + step) / 100)
        for row in published
        for fold, step in enumerate(folds)
    ]
