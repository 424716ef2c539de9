"""A drawing in SVG with boxes, lines and words: light or dark as the reader's system is, on a ground of its own."""

from xml.sax.saxutils import escape

STYLE = """
svg { background: #ffffff; font-family: system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
.ground { fill: #ffffff; } .floor { fill: #f1f4f8; } .line { stroke: #7b8794; fill: none; } .head { fill: #7b8794; }
text { fill: #1b2530; } .quiet { fill: #52606d; } .code { font-family: ui-monospace, Menlo, Consolas, monospace; }
.a { fill: #d6e6f7; stroke: #3f7cbf; } .b { fill: #dcefdc; stroke: #4a934a; } .c { fill: #fbe6cd; stroke: #c5812c; }
.d { fill: #eadcf3; stroke: #8b5bad; } .e { fill: #fbdcdc; stroke: #c05555; }
@media (prefers-color-scheme: dark) {
  svg { background: #161b22; } .ground { fill: #161b22; } .floor { fill: #1f262f; }
  .line { stroke: #8b98a5; } .head { fill: #8b98a5; } text { fill: #e6edf3; } .quiet { fill: #a3b0bd; }
  .a { fill: #1d3a57; } .b { fill: #1f3d22; } .c { fill: #4a3413; } .d { fill: #3a2749; } .e { fill: #4d2424; }
}
""".strip()


class Drawing:
    """Parts of a drawing, first to last."""

    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{width:g}" height="{height:g}" rx="6"/>',
        ]

    def box(self, x, y, width, height, kind, radius=4):
        """A rectangle; (x, y) is its upper left corner."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}"/>'
        )

    def words(self, x, y, text, kind="", size=11, anchor="middle"):
        """A line of text, centred at `y`."""
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y + 0.36 * size:.1f}" font-size="{size}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def arrow(self, points, name=""):
        """A smooth line through points, downwards, with a head at the last."""
        (x, y), *rest = points
        path = [f"M{x:.1f},{y:.1f}"]
        for to_x, to_y in rest:
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
            x, y = to_x, to_y
        self.parts.append(f'<path class="line" d="{" ".join(path)}"><title>{escape(name)}</title></path>')
        self.parts.append(f'<path class="head" d="M{x:.1f},{y:.1f} l-3,-6 h6 z"/>')

    def straight(self, points):
        """A line with corners, and a head at its end, in the direction of its last part."""
        path = " ".join(f"{'L' if at else 'M'}{x:.1f},{y:.1f}" for at, (x, y) in enumerate(points))
        self.parts.append(f'<path class="line" d="{path}"/>')
        (from_x, from_y), (x, y) = points[-2:]
        if abs(x - from_x) > abs(y - from_y):
            side = -6 if x > from_x else 6
            self.parts.append(f'<path class="head" d="M{x:.1f},{y:.1f} l{side},-3 v6 z"/>')
        else:
            self.parts.append(f'<path class="head" d="M{x:.1f},{y:.1f} l-3,-6 h6 z"/>')

    def text(self):
        """The whole file."""
        return "\n".join([*self.parts, "</svg>\n"])
