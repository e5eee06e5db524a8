"""Facts about drawn figures that several tests ask for."""

from propml.benchmark.figures.style import measuring_renderer


def labelled(artists, label):
    """The artists that a figure's code gave this label."""
    return [artist for artist in artists if artist.get_label() == label]


def all_inside(figure):
    """Whether everything that is drawn, letters included, lies on the figure."""
    renderer = measuring_renderer(figure)
    figure.draw(renderer)
    drawn, (width, height) = figure.get_tightbbox(renderer), figure.get_size_inches()
    return min(drawn.x0, drawn.y0, width - drawn.x1, height - drawn.y1) > -0.01


def measured_like(published, shift=-1.0, **changes):
    """Means of two folds: the published ones plus ``shift`` percent, with a deviation of half a percent."""
    return [row._replace(mean=row.mean + shift, std=0.5, n=2, **changes) for row in published]
