"""What is made of facts.json: structures, and rules by the names of functions and of their parameters."""

import inspect
import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import forebay as fb
from forebay import hip
from forebay.hip import facts
from forebay.hip.errors import named
from forebay.hip.facts import FACTS
from forebay.hip.table import FUNCTIONS, chapter_of

pytestmark = pytest.mark.needs("no chosen device")


def test_each_structure_has_members_of_its_own():
    one, other = hip.hipTextureDesc(), hip.hipTextureDesc()
    one.borderColor[0] = 1.0
    assert other.borderColor == [0.0] * 4
    assert hip.hipMemcpy3DParms().srcPos is not hip.hipMemcpy3DParms().srcPos
    assert hip.hipMemcpy3DParms().kind is hip.hipMemcpyKind.hipMemcpyDefault
    copied = one.copy()
    copied.borderColor[0] = 2.0
    assert one.borderColor[0] == 1.0


def test_members_by_position_by_name_and_none_else():
    extent = hip.hipExtent(1, depth=3)
    assert (extent.width, extent["height"], extent.depth) == (1, 0, 3)
    assert "depth" in extent
    assert "pitch" not in extent
    for given, by_name, told in (
        ((1, 2, 3, 4), {}, "has 3 members"), ((1,), {"width": 2}, "'width' is given twice"),
        ((), {"pitch": 2}, "'pitch' is no member"),
    ):  # fmt: skip
        with pytest.raises(fb.ArgumentTypeError, match=told):
            hip.hipExtent(*given, **by_name)
    with pytest.raises(AttributeError, match="hipExtent has no member 'pitch'"):
        extent.pitch  # noqa: B018


def test_bytes_are_equal_by_what_they_are():
    one, same, other = hip.hipUUID_t(b"1" * 16), hip.hipUUID_t(bytes=b"1" * 16), hip.hipUUID_t()
    assert one == same != other
    assert hash(one) == hash(same)
    assert bytes(other) == bytes(16)
    assert hip.hipIpcMemHandle_t(bytes(64)) != hip.hipIpcEventHandle_t(bytes(64))


def test_enumerators_with_one_number_are_one():
    assert hip.hipError_t.hipErrorMemoryAllocation is hip.hipError_t.hipErrorOutOfMemory
    assert hip.hipResourcetype is hip.HIPresourcetype
    flags = hip.hipGraphInstantiateFlags
    both = flags.hipGraphInstantiateFlagUpload | flags.hipGraphInstantiateFlagAutoFreeOnLaunch
    assert isinstance(both, flags)
    assert f"{hip.hipError_t.hipErrorNotFound}" == "hipError_t.hipErrorNotFound"


def test_an_enumeration_is_made_once():
    made = [name for kinds in ("IntEnum", "IntFlag") for name in FACTS[kinds]]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: [getattr(facts, name) for name in made], range(4)))
    assert found == [[getattr(hip, name) for name in made]] * 4
    kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
    assert pickle.loads(pickle.dumps(kind)) is kind
    with pytest.raises(AttributeError, match="has no attribute 'hipNone'"):
        facts.hipNone  # noqa: B018


@pytest.mark.parametrize("chapter", FACTS["chapters"])
def test_no_chapter_is_empty(chapter):
    assert chapter in set(map(chapter_of, FUNCTIONS))


@pytest.mark.parametrize("names", FACTS["conditions"])
def test_each_condition_is_of_a_function(names):
    assert any(re.fullmatch(names, name[3:]) for name in FUNCTIONS)


def test_what_is_said_of_parameters_is_of_some():
    functions = [getattr(hip, name) for name in FUNCTIONS]
    there = {name for function in functions for name in inspect.signature(function).parameters}
    assert FACTS["parameters"].keys() <= there


@pytest.mark.parametrize(("name", "of", "renamed"), [
    ("hipHostAlloc", "hipHostMalloc", {}), ("hipArrayDestroy", "hipFreeArray", {}),
    ("hipLibraryGetKernel", "hipModuleGetFunction", {"module": "library", "kname": "name"}),
    ("hipTexObjectDestroy", "hipDestroyTextureObject", {"textureObject": "texObject"}),
])  # fmt: skip
def test_another_name_of_a_function(name, of, renamed):
    function, same = getattr(hip, name), inspect.signature(getattr(hip, of)).parameters
    assert function.__name__ == function.__qualname__ == name
    assert list(inspect.signature(function).parameters) == [renamed.get(each, each) for each in same]
    assert f"`{of}`" in function.__doc__


@pytest.mark.parametrize("name", ["hipMemcpy2D", "hipMemcpy2DAsync", "hipMemsetD16", "hipGraphAddMemcpyNode1D"])
def test_a_call_without_arguments_names_the_function(name):
    with pytest.raises(TypeError, match=rf"{name}\(\)"):
        getattr(hip, name)()
    with pytest.raises(TypeError):
        getattr(hip, name)(nothing=1)


PAIRS = [name for name in FUNCTIONS if re.match("hip(Drv)?Mem(cpy|set)", name) and f"{name}Async" in FUNCTIONS]


@pytest.mark.parametrize("name", PAIRS)
def test_both_of_a_pair_take_the_same_but_for_a_stream(name):
    own = list(inspect.signature(getattr(hip, name)).parameters.values())
    *others, stream = inspect.signature(getattr(hip, f"{name}Async")).parameters.values()
    assert stream.name == "stream"
    assert [(each.annotation, each.default) for each in own] == [(each.annotation, each.default) for each in others]
    assert "on the null stream" not in getattr(hip, f"{name}Async").__doc__


def test_parameters_are_renamed_where_a_function_inside_uses_them():
    def definition(first, second=2):
        return lambda: (first, second)

    renamed = named(definition, "other", "What it does.", first="one")
    assert renamed(one=1)() == renamed(1)() == (1, 2)
    assert (renamed.__name__, renamed.__doc__) == ("other", "What it does.")
    assert definition(first=1)() == (1, 2)
