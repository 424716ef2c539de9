"""docs/reference/environment.md has every variable that the code reads."""

import re

import pytest

from tests.helpers.processes import ROOT

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

pytestmark = pytest.mark.needs("no chosen device")

FOLDERS = ("core", "events", "lifetimes", "microbench", "queues", "races", "spirv", "src", "sync")
SOURCES = [
    path
    for folder in FOLDERS
    for ending in ("py", "pyx", "hpp", "c")
    for path in (ROOT / folder).rglob(f"*.{ending}")
    if "include" not in path.parts  # HIP's headers
]
# ``os.environ.get(x)``, ``os.environ[x]``, ``x in os.environ``, where x is a string or a constant, of whichever module
READ = re.compile(
    r'environ(?:\.get|\.setdefault|\.pop)?[([]\s*("\w+"|(?:\w+\.)*[A-Z_]{2,}\b)'
    r'|("\w+"|(?:\w+\.)*\b[A-Z_]{2,}) (?:not )?in os\.environ'
    r"|environ\.get\(name\)[^\n]* for name in ([A-Z_]{2,})"
    r'|getenv\(("\w+")'
)
OURS = re.compile(r'"(_?FOREBAY_[A-Z_]+)["=]')
CONSTANT = re.compile(r"^([A-Z_]+(?:, [A-Z_]+)*)(?:: [^=\n]+)? = (.*)$", re.MULTILINE)


def constants(text):
    """The strings that each constant of a module has."""
    found = {}
    for names, value in CONSTANT.findall(text):
        for name in names.split(", "):
            found.setdefault(name, set()).update(re.findall(r'"(\w+)"', value))
    return found


def read_by(texts):
    """The variables that these modules read: each with a module that does."""
    everywhere = {}
    for text in texts.values():
        for name, values in constants(text).items():
            everywhere.setdefault(name, set()).update(values)
    found = {}
    for path, text in texts.items():
        own = constants(text)
        for groups in READ.findall(text):
            word = next(filter(None, groups))
            name = word.rpartition(".")[2]
            values = {word.strip('"')} if word.startswith('"') else own.get(name) or everywhere.get(name)
            assert values, f"{path} reads {word} of the environment, which is no constant"
            found |= dict.fromkeys(values, path)
        found |= dict.fromkeys(OURS.findall(text), path)
    return found


@pytest.fixture(scope="module")
def variables():
    return read_by({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES})


def test_each_is_on_the_page(variables):
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`(\w+)`", page))
    assert {name: path for name, path in variables.items() if name not in shown and len(name) > 1} == {}
    tests = OURS.findall((ROOT / "tests" / "null_levelzero.py").read_text(encoding="utf-8"))
    ours = {name for name in shown if "FOREBAY_" in name}
    assert ours - {*variables, *tests} == {"_FOREBAY_COMPLETE"}, "that is click's; the others are read by nobody"


def test_those_that_are_read_are_found(variables):
    assert {"FOREBAY_DEVICE", "FOREBAY_TRACE_DEVICE_TIMES", "OCL_ICD_VENDORS", "CUDA_PATH", "CC"} <= set(variables)
    text = 'KEY: str = "CONSTANT"\nos.environ.get(KEY); "WRITTEN" in os.environ; os.environ["READ"]; f("FOREBAY_X=1")'
    assert set(read_by({"some.py": text})) == {"CONSTANT", "WRITTEN", "READ", "FOREBAY_X"}
    with pytest.raises(AssertionError, match="UNKNOWN"):
        read_by({"some.py": "os.environ[UNKNOWN]"})
