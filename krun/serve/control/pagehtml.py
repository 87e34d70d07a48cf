"""The status page's appearance: its style, tables, marks, bars and charts as HTML. Knows nothing of services.

Every text that is not markup of this file is escaped here or by the caller (`escape`): names and messages are hostile, too.
"""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--text:#1b2430;--soft:#667085;--line:#e4e7ec;--blue:#2563eb;
--area:#dbe7ff;--good:#067647;--goodbg:#e3f6ec;--bad:#b42318;--badbg:#fde8e6;--wait:#93570a;--waitbg:#fdf1d8;--idle:#475467;--idlebg:#eceff3;
--s0:#2563eb;--s1:#12a594;--s2:#e5812b;--s3:#9b5de5;--s4:#d6336c}
@media(prefers-color-scheme:dark){:root{--bg:#0e131b;--card:#171e29;--text:#e6eaf0;--soft:#96a1b2;--line:#2a3342;--blue:#7aa7ff;
--area:#22365c;--good:#6fdba4;--goodbg:#123527;--bad:#ff9d94;--badbg:#421b1a;--wait:#f4c15d;--waitbg:#3b2c0d;--idle:#b4bfce;--idlebg:#263040}}
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;margin:0;
background:var(--bg);color:var(--text)}
main,header>div{max-width:82rem;margin:0 auto;padding:0 1.5rem}
header{background:var(--card);border-bottom:1px solid var(--line)}
header>div{display:flex;align-items:baseline;gap:1rem;padding-top:.9rem;padding-bottom:.9rem}
h1{font-size:1.15rem;margin:0;letter-spacing:-.01em}h1 b{color:var(--blue)}
header p{margin:0 0 0 auto;color:var(--soft)}
.sum{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1rem;margin:1.5rem 0}
.sum div,section{background:var(--card);border:1px solid var(--line);border-radius:.6rem}
.sum div{padding:.8rem 1.1rem}.sum b{display:block;font-size:1.7rem;font-weight:600;letter-spacing:-.02em;line-height:1.25}
.sum span,.soft{color:var(--soft)}
section{margin:0 0 1.5rem;overflow-x:auto}h2{font-size:.95rem;margin:0;padding:.8rem 1.1rem;border-bottom:1px solid var(--line)}
h2 small{color:var(--soft);font-weight:400;margin-left:.5rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.65rem 1.1rem;vertical-align:top;border-bottom:1px solid var(--line)}
tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:500;font-size:.8rem;white-space:nowrap;padding:.5rem 1.1rem}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}td b{font-weight:600}td,a{overflow-wrap:anywhere}
a{color:var(--blue);text-decoration:none}a:hover{text-decoration:underline}
code{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
pre{margin:0;padding:1rem 1.1rem;overflow-x:auto}section>p{margin:0;padding:1rem 1.1rem}
.mark{display:inline-block;padding:.05rem .55rem;border-radius:1rem;font-size:.8rem;font-weight:500;white-space:nowrap}
.good{color:var(--good);background:var(--goodbg)}.bad{color:var(--bad);background:var(--badbg)}
.wait{color:var(--wait);background:var(--waitbg)}.idle{color:var(--idle);background:var(--idlebg)}
.why{display:block;color:var(--soft);font-size:.85rem;margin-top:.25rem;max-width:26rem}
.bar{display:flex;height:.5rem;border-radius:.25rem;overflow:hidden;background:var(--idlebg);margin:.3rem 0 .4rem;min-width:11rem}
.bar i{display:block}.bar .s0,.dot.s0{background:var(--s0)}.bar .s1,.dot.s1{background:var(--s1)}.bar .s2,.dot.s2{background:var(--s2)}
.bar .s3,.dot.s3{background:var(--s3)}.bar .s4,.dot.s4{background:var(--s4)}
.part{display:block;white-space:nowrap}.dot{display:inline-block;width:.55rem;height:.55rem;border-radius:50%;margin-right:.4rem}
svg{display:block}svg .a{fill:var(--area)}svg .l{fill:none;stroke:var(--blue);stroke-width:1.5}
svg .g{stroke:var(--line);stroke-width:1}svg text{fill:var(--soft);font-size:10px}
footer{color:var(--soft);font-size:.85rem;padding:0 0 2rem}footer .dot{border-radius:.1rem;margin-left:1rem}
.dot.area{background:var(--area)}.dot.line{background:var(--blue);height:.15rem;vertical-align:middle}
"""
#: Colours of shares and phases; more parts than colours begin anew.
_COLOURS = 5


def document(title: str, aside: str, body: Iterable[str]) -> bytes:
    """Returns the document. aside: HTML at the right of the head line; body: HTML."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<meta http-equiv="refresh" content="5"><title>{escape(title)}</title><style>{_STYLE}</style></head>',
        f"<body><header><div><h1><b>krun</b> serve</h1><p>{aside}</p></div></header><main>",
        *body,
        "</main></body></html>",
    ]
    return "".join(parts).encode("utf-8", "replace")


def summary(cards: Iterable[tuple[str, str, str]]) -> str:
    """Returns the row of cards. cards: (number, what it counts, a remark), texts."""
    return (
        '<div class="sum">'
        + "".join(
            f"<div><span>{escape(what)}</span><b>{escape(number)}</b><span>{escape(remark)}</span></div>"
            for number, what, remark in cards
        )
        + "</div>"
    )


def table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], total: int, empty: str) -> str:
    """Returns a section with a table. rows: cells, HTML; total: rows that there are; empty: HTML where there is none."""
    out = [f'<section id="{name.lower()}"><h2>{escape(name)}<small>{total if total else ""}</small></h2>']
    if not rows:
        return "".join([*out, f"{empty}</section>"])
    out.append("<table><thead><tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads))
    out.append("</tr></thead><tbody>")
    out += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    out.append("</tbody></table>")
    if total > len(rows):
        out.append(f'<p class="soft">and {total - len(rows)} more</p>')
    return "".join([*out, "</section>"])


def mark(text: str, kind: str, why: str = "") -> str:
    """Returns a coloured word; kind: good, bad, wait or idle; why: a text below it."""
    below = f'<span class="why">{escape(why[:300])}</span>' if why else ""
    return f'<span class="mark {kind}">{escape(text)}</span>{below}'


def link(url: str, text: str) -> str:
    """Returns a link, or only the text where `url` is none of a web page."""
    if not url.startswith(("http://", "https://")):
        return escape(text)
    return f'<a href="{escape(url, True)}">{escape(text)}</a>'


def bar(parts: Sequence[tuple[float, str]], whole: float) -> str:
    """Returns a bar of coloured parts and their captions. parts: (size, caption as HTML); whole: the size of the full width."""
    pieces, captions = [], []
    for number, (size, caption) in enumerate(parts):
        colour = f"s{number % _COLOURS}"
        share = min(max(size / whole * 100 if whole > 0 else 0.0, 0.0), 100.0)
        pieces.append(f'<i class="{colour}" style="width:{share:.2f}%"></i>')
        captions.append(f'<span class="part"><i class="dot {colour}"></i>{caption}</span>')
    return f'<div class="bar">{"".join(pieces)}</div>{"".join(captions)}'


def chart(history: Iterable[tuple[float, int, int]], now: float, seconds: float) -> str:
    """Returns an SVG: instances (line) and requests (area) over the last `seconds`, in steps.

    history: (time, instances, requests), the oldest first; a value holds until the next one. Both have one scale.
    """
    width, height, foot, side = 240, 48, 12, 28
    known = [(max(at, now - seconds), lines, areas) for at, lines, areas in history if at <= now]
    recent = [one for one in known if one[0] > now - seconds]
    # What held at the left edge: the newest value before it.
    before = next((one for one in reversed(known) if one[0] <= now - seconds), None)
    shown = ([before] if before else []) + recent
    if not shown:
        shown = [(now - seconds, 0, 0)]
    top = max(max(one[1], one[2]) for one in shown) or 1

    def points(column: int) -> str:
        out: list[str] = []
        held, level = None, ""
        for one in shown:
            value = one[column]
            if value == held:
                continue
            x = f"{(one[0] - now + seconds) / seconds * width:.1f}"
            if held is not None:
                out.append(f"{x},{level}")
            held, level = value, f"{height - value / top * (height - 3):.1f}"
            out.append(f"{x},{level}")
        return " ".join([*out, f"{width},{level}"])

    area = points(2)
    first = area.partition(",")[0]
    return (
        f'<svg width="{width + side}" height="{height + foot}" viewBox="0 0 {width + side} {height + foot}" role="img">'
        f'<polygon class="a" points="{first},{height} {area} {width},{height}"/>'
        f'<line class="g" x1="0" y1="{height}" x2="{width}" y2="{height}"/>'
        f'<polyline class="l" points="{points(1)}"/>'
        f'<text x="0" y="{height + foot - 1}">-{age(seconds)}</text>'
        f'<text x="{width}" y="{height + foot - 1}" text-anchor="end">now</text>'
        f'<text x="{width + 5}" y="9">{top}</text><text x="{width + 5}" y="{height}">0</text>'
        f"<title>{shown[-1][1]} instances, {shown[-1][2]} requests; at most {top} in {age(seconds)}</title></svg>"
    )


def age(seconds: float) -> str:
    """Returns a duration (seconds) for people, in its two largest units: 42s, 3m 7s, 5m, 2h 5m, 4d 1h."""
    whole = max(int(seconds), 0)
    for size, word, below, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{word} {rest}{small}" if rest else f"{whole // size}{word}"
    return f"{whole}s"
