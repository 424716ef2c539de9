"""The page docs/reference/environment.md has every environment variable that the code reads, and no others."""

import re

from tools.checks import ROOT

FOLDERS = ("core", "events", "lifetimes", "microbench", "queues", "races", "src", "sync")
# ``os.environ.get(x)``, ``os.environ[x]``, ``x in os.environ``, where x is a string or a constant, of whichever module
READ = re.compile(
    r'environ(?:\.get|\.setdefault|\.pop)?[([]\s*("\w+"|(?:\w+\.)*[A-Z_]{2,}\b)'
    r'|("\w+"|(?:\w+\.)*\b[A-Z_]{2,}) (?:not )?in os\.environ'
    r"|environ\.get\(name\)[^\n]* for name in ([A-Z_]{2,})"
    r'|getenv\(("\w+")'
)
OURS = re.compile(r'"(_?FOREBAY_[A-Z_]+)["=]')
CONSTANT = re.compile(r"^([A-Z_]+(?:, [A-Z_]+)*)(?:: [^=\n]+)? = (.*)$", re.MULTILINE)
OF_OTHERS = {"_FOREBAY_COMPLETE"}  # click's


def constants(text):
    """Return the strings that each constant of a module has."""
    found = {}
    for names, value in CONSTANT.findall(text):
        for name in names.split(", "):
            found.setdefault(name, set()).update(re.findall(r'"(\w+)"', value))
    return found


def findings():
    """Yield variables that the page lacks, and those of the page that no module reads."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if "include" not in path.parts]
    texts = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in (".py", ".pyx", ".hpp", ".c")
    }
    everywhere = {}
    for text in texts.values():
        for name, values in constants(text).items():
            everywhere.setdefault(name, set()).update(values)
    read = {}
    for path, text in texts.items():
        own = constants(text)
        for groups in READ.findall(text):
            word = next(filter(None, groups))
            name = word.rpartition(".")[2]
            values = {word.strip('"')} if word.startswith('"') else own.get(name) or everywhere.get(name)
            if not values:
                yield f"{path} reads {word} of the environment, which is no constant"
            read |= dict.fromkeys(values or (), path)
        read |= dict.fromkeys(OURS.findall(text), path)
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(\w+)`", page))
    yield from (f"{path} reads {name}, which the page lacks" for name, path in read.items() if name not in shown)
    ours = {name for name in shown if "FOREBAY_" in name}
    tools = OURS.findall((ROOT / "tools" / "null_levelzero.py").read_text(encoding="utf-8"))
    yield from (f"no module reads {name}" for name in ours - read.keys() - OF_OTHERS - {*tools})
    yield from (f"{name} was not found" for name in ("FOREBAY_DEVICE", "OCL_ICD_VENDORS", "CC") if name not in read)
