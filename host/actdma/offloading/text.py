"""A report in words: the cells of its tables, and the sentences of its verdict."""

from __future__ import annotations

from .records import Record, Report, fabric_rate


def title(report: Report) -> str:
    """What was run, in one line."""
    options = report.environment.get("options")
    codecs = "/".join(sorted({r.codec for r in report.records if r.codec})) or "nothing"
    ran = f"{options['model']}, batch {options['batch']}, {options['dtype']}: " if options else ""
    return f"{ran}{len(report.records)} saved tensors, {codecs} through {through(report)}"


def through(report: Report) -> str:
    """What the tensors went through, for a sentence."""
    board = report.environment["board"]
    if board:
        emulated = board.get("kind") == "emulated"
        return "the emulated FPGA board" if emulated else "the FPGA board"
    backend = report.environment["backend"]
    known = {"native": "the CPU's codec", "reference": "the NumPy reference"}
    return known.get(backend, f"the backend {backend!r}")


def columns(report: Report) -> dict[str, str]:
    """The columns of `cells` by name: on which side they are aligned, "<" or ">"."""
    texts = {"#": ">", "saved by": "<", "shape": "<", "dtype": "<"}
    figures = dict.fromkeys(("MB", "zeros", "ratio", "GB/s\nin", "GB/s\nout"), ">")
    return {**({"rank": ">"} if _has_ranks(report) else {}), **texts, **figures}


def rates_are(report: Report) -> str:
    """What the rates in `cells` are; all modelled or all measured."""
    kind = "modelled" if report.modelled else "measured"
    what = "the fabric alone" if report.has_cycles else f"{through(report)}, wall clock"
    return f"GB/s: 1e9 raw bytes per second of {what}, {kind}"


def cells(report: Report, record: Record) -> list[str]:
    """One record."""
    rank = [str(record.rank)] if _has_ranks(report) else []
    return [
        *rank,
        str(record.index),
        record.module or record.operator or "",
        "x".join(map(str, record.shape)),
        record.dtype,
        f"{record.raw_bytes / 1e6:.2f}",
        f"{record.zero_fraction:.1%}",
        f"{record.ratio:.2f}" if record.stored_bytes else record.form,
        _number(_rate(report, record, "compress")),
        _number(_rate(report, record, "decompress")),
    ]


def total_cells(report: Report) -> list[tuple[str, str]]:
    """The totals: name and value."""
    totals = report.totals()
    rows = [
        ("PyTorch would hold", f"{totals['plain_bytes'] / 1e6:.2f} MB"),
        ("raw", f"{totals['raw_bytes'] / 1e6:.2f} MB in {totals['tensors']} tensors"),
        ("stored", f"{totals['stored_bytes'] / 1e6:.2f} MB, ratio {_number(totals['ratio'])}"),
        ("zeros", f"{totals['zero_fraction'] or 0:.1%} (weighted by bytes)"),
        ("saves", f"{totals['saves']} packed, kept as they are: {kept(report)}"),
        ("held for backward", f"{totals['held_bytes_peak'] / 1e6:.2f} MB at the peak, decoded too"),
    ]
    if report.no_gain:
        rows.append(("lossy rules without gain", f"{len(report.no_gain)}, see Session.plan()"))
    if report.faults:
        rows.append(("faults", f"{report.faults}, the CPU's codec took over"))
    for name, where, kind in (
        ("fabric alone", "fabric", totals["timing"]),
        ("CPU codec, one thread", "cpu", "measured"),
    ):
        into, out = (totals.get(f"{where}_{w}_gb_per_s") for w in ("compress", "decompress"))
        if into:
            back = "nothing has come back yet" if out is None else f"{_number(out)} GB/s out"
            rows.append((name, f"{_number(into)} GB/s in, {back} ({kind})"))
    if "memcpy_gb_per_s" in totals:
        rows.append(("memcpy, one thread", f"{_number(totals['memcpy_gb_per_s'])} GB/s (measured)"))
    if totals.get("step_s"):
        times = (
            f"{totals['plain_step_s']:.2f} s plain, {totals['step_s']:.2f} s this way with checks"
        )
        rows.append(("wall time of a step", f"{times} (measured)"))
    return rows


def verdict(report: Report) -> list[tuple[bool, str]]:
    """What comparing with the plain run says: (good, sentence)."""
    compared = sum(r.bit_identical is not None for r in report.records)
    wrong = sum(r.bit_identical is False for r in report.records)
    sentences = []
    fault = report.extra_totals.get("fault")
    if fault:
        sentences.append((False, f"The backward pass was stopped by a {fault}."))
    if wrong:
        sentences.append((False, f"{wrong} of {compared} tensors that came back have other bits."))
    elif compared:
        came = f"{compared} of {len(report.records)} tensors came back"
        sentences.append((True, f"{came} for the backward pass, every one bit-identical."))
    if report.gradients_identical is not None:
        verb = "are" if report.gradients_identical else "are NOT"
        sentence = f"The gradients of the run through {through(report)} {verb} bit-identical to "
        sentences.append((report.gradients_identical, f"{sentence}the plain run."))
    return sentences


def plain(report: Report) -> str:
    """Everything as plain text."""
    header = [name.replace("\n", " ") for name in columns(report)]
    rows = [header, *(cells(report, record) for record in report.records)]
    align = "".join(columns(report).values())
    lines = [title(report), *aligned(rows, align), rates_are(report)]
    lines += [f"{name}: {value}" for name, value in total_cells(report)]
    lines += [sentence for _, sentence in verdict(report)]
    return "\n".join(lines)


def aligned(rows: list[list[str]], align: str) -> list[str]:
    """A line for each row; ``align``: "<" or ">" for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(map(str.__format__, row, map("{}{}".format, align, widths))).rstrip()
        for row in rows
    ]


def kept(report: Report) -> str:
    """How many tensors were kept as they are, by reason."""
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(report.kept.items()))
    return counts or "none"


def _has_ranks(report: Report) -> bool:
    return any(record.rank is not None for record in report.records)


def _rate(report: Report, record: Record, way: str) -> float | None:
    """GB/s of one record: of the fabric alone where there is one, else by the wall clock."""
    if report.has_cycles:
        return fabric_rate([record], way, report.environment["board"])
    seconds = getattr(record, f"{way}_s")
    return record.raw_bytes / seconds / 1e9 if seconds else None


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
