"""Work that tests do in several threads."""

import concurrent.futures


def run_threads(work, count):
    """Call ``work(number)`` in ``count`` threads; raises what one of them raised."""
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        list(threads.map(work, range(count)))
