"""Packaging: every folder of code is in each list of them, and versions and requirements agree between the files."""

import re
import runpy
from pathlib import Path

from tools.checks import ROOT

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, for which mypy brings it
    import tomli as tomllib

PUBLISHED = re.compile(r"https://[^/]*/forebay/forebay/(?:blob/)?main/([^#]*)")


def module_of(path):
    """Return the import name of a file or folder."""
    parts = path.with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "src" else ("forebay", *parts))


def text_of(name):
    """Return the text of a file."""
    return (ROOT / name).read_text(encoding="utf-8")


def findings_of_folders(rules, project):
    """Check that each folder with code is a package, for setup.py, pyproject.toml, MANIFEST.in and the Makefile."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "tools", "examples", "microbench"}
    lists = {
        "setup.py": set(rules["ROOMS"]),
        "pyproject.toml": set(project["tool"]["setuptools"]["package-dir"].values()) - {"src/forebay", "microbench"},
        "MANIFEST.in": folders & set(re.findall(r"^graft (\S+)", text_of("MANIFEST.in"), re.MULTILINE)),
        "Makefile": set(re.search(r"^ROOMS := (.*)$", text_of("Makefile"), re.MULTILINE)[1].split()) - {"src"},
    }
    for name, listed in lists.items():
        yield from (f"{name} lists other packages: {each}" for each in sorted(listed ^ folders))
    sources = [path.relative_to(ROOT) for folder in ("src", *folders) for path in (ROOT / folder).rglob("*.py*")]
    sources = [path for path in sources if path.suffix in (".py", ".pyx")]
    compiled = {module_of(path) for path in sources if path.suffix == ".pyx"}
    for name in compiled ^ {each.name for each in rules["extensions"]("src", *folders)}:
        yield f"setup.py does not compile {name}, or there is no such source"
    for name in {module_of(path.parent) for path in sources} - set(rules["packages"]()):
        yield f"{name} has no __init__.py"


def findings_of_versions(project):
    """Check the recipe of conda, the Pythons that wheels are for, and the number of the release."""
    recipe = text_of("release/conda/recipe.yaml")
    requires = {"host": project["build-system"]["requires"], "run": project["project"]["dependencies"]}
    for section, expected in requires.items():
        (lines,) = re.findall(rf"^  {section}:\n((?:    - .*\n)+)", recipe, re.MULTILINE)
        listed = {line.strip("- ").replace(" ", "").lower() for line in lines.splitlines()} - {"python", "pip"}
        for each in listed ^ {each.lower() for each in expected}:
            yield f"release/conda/recipe.yaml and pyproject.toml differ, in {section}: {each}"
    named = re.findall(r"Python :: 3\.(\d+)$", "\n".join(project["project"]["classifiers"]), re.MULTILINE)
    pythons = {
        "cibuildwheel": project["tool"]["cibuildwheel"]["build"].split()
        == [*(f"cp3{minor}-*" for minor in named), f"cp3{named[-1]}t-*"],
        "requires-python": project["project"]["requires-python"] == f">=3.{named[0]}",
        "release/wheels.py": runpy.run_path(str(ROOT / "release" / "wheels.py"))["VERSIONS"]
        == [f"python3.{minor}" for minor in named],
    }
    yield from (f"{name} has other Pythons than the classifiers" for name, same in pythons.items() if not same)
    number, date = re.search(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", text_of("CHANGELOG.md"), re.MULTILINE).groups()
    citation = re.findall(r'^(?:version|date-released): "?([^"\n]*)', text_of("CITATION.cff"), re.MULTILINE)
    numbers = {
        "CITATION.cff": citation == [number, date],
        "release/conda/recipe.yaml": f'  version: "{number}"\n' in recipe,
        "pyproject.toml": project["tool"]["setuptools_scm"]["fallback_version"] == number,
    }
    yield from (
        f"{name} has not the number of CHANGELOG.md's newest chapter" for name, is_it in numbers.items() if not is_it
    )


def findings_of_readme(text):
    """Check what an index shows: it has the text and not the files, so links and pictures must be whole addresses."""
    targets = re.findall(r"(!?)\[[^]]*\]\(([^)]*)\)", text)
    if sum(bool(picture) for picture, _ in targets) < 2:
        yield "README.md has no pictures"
    for picture, target in targets:
        host = "raw.githubusercontent.com" if picture else "github.com"
        file = PUBLISHED.match(target)
        if not (file and target.startswith(f"https://{host}/") and Path(ROOT, file[1]).exists()):
            yield f"README.md, as an index shows it, leads nowhere: {target}"


def findings():
    """Yield what is missing or differs."""
    project = tomllib.loads(text_of("pyproject.toml"))
    rules = runpy.run_path(str(ROOT / "setup.py"))
    yield from findings_of_folders(rules, project)
    yield from findings_of_versions(project)
    yield from findings_of_readme(rules["readme"]())
