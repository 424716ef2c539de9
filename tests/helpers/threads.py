"""Runs functions at once, each on a thread of its own."""

import threading


def together(*functions):
    """Return when all have returned. Raises what the first of them has raised, if any has."""
    errors = []

    def run(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
