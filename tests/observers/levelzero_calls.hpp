// The wrappers around the driver's calls: the checks of each call, and its effects.

#pragma once

#include "tests/observers/levelzero_objects.hpp"

namespace forebay_observer {

template <int function, class R, class... A> struct Wrapper {
    static inline R (*original)(A...) = nullptr;

    static constexpr int n = sizeof...(A);
    static constexpr std::string_view name = call_names[function];
    static constexpr bool is_replay = function == CALL_CommandListImmediateAppendCommandListsExp;
    static constexpr bool is_append = begins(name, "CommandListAppend") || is_replay;
    static constexpr bool is_of_list = is_append || function == CALL_CommandListHostSynchronize
        || function == CALL_CommandListDestroy || function == CALL_CommandListClose
        || function == CALL_CommandListGetNextCommandIdExp || function == CALL_CommandListUpdateMutableCommandsExp;
    static constexpr bool is_of_kernel = begins(name, "KernelSet") || function == CALL_KernelDestroy;
    static constexpr bool is_launch = begins(name, "CommandListAppendLaunch");
    static constexpr bool is_copy = function == CALL_CommandListAppendMemoryCopy;
    static constexpr bool is_fill = function == CALL_CommandListAppendMemoryFill;
    static constexpr bool is_marker = function == CALL_CommandListAppendSignalEvent;
    static constexpr bool is_barrier = function == CALL_CommandListAppendWaitOnEvents;
    static constexpr bool has_waits = is_append && !is_marker;
    static constexpr bool signals = is_append && !is_barrier;
    static constexpr bool is_of_event = begins(name, "EventHost") || begins(name, "EventQuery")
        || function == CALL_EventDestroy;
    static constexpr bool makes = name.find("Create") != name.npos || begins(name, "MemAlloc");
    static constexpr bool is_end = begins(name, "MemFree") || name.find("Destroy") != name.npos;
    typedef std::tuple<A...> Arguments;

    static void *signal_of(const Arguments& all) {
        if constexpr (is_marker) return std::get<1>(all);
        else if constexpr (signals) return (void *) std::get<n - 3>(all);
        else return nullptr;
    }

    static void **waits_of(const Arguments& all, uint32_t *count) {
        *count = 0;
        if constexpr (has_waits) {
            *count = std::get<n - 2>(all);
            return std::get<n - 1>(all);
        }
        return nullptr;
    }

    template <class Each> static void each_change(const ChangesDesc *desc, Each each) {
        struct Any { uint32_t stype; const void *next; };
        for (const Any *at = (const Any *) desc->next; at; at = (const Any *) at->next) {
            if (at->stype == ArgumentChange().stype) each((const ArgumentChange *) at, nullptr);
            if (at->stype == GroupsChange().stype) each(nullptr, (const GroupsChange *) at);
        }
    }

    static uintptr_t pointer_in(const ArgumentChange *argument) {
        uintptr_t value = 0;
        if (argument->size == sizeof value && argument->value) std::memcpy(&value, argument->value, sizeof value);
        return value;
    }

    // Nothing tells which arguments are pointers, but one that was memory is.
    static bool is_pointer(List& list, const ArgumentChange *argument) {
        return list.named[argument->command].count(argument->index);
    }

    // What is wrong whatever the driver says. The arguments are noted first: the driver may change them.
    static void check(const Arguments& all) {
        State& s = state();
        void *first = (void *) std::get<0>(all);
        uint32_t count = 0;
        (void) s;
        if constexpr (is_append) {
            List& list = list_of(first);
            void **waits = waits_of(all, &count);
            for (uint32_t i = 0; i < count; i++) check_wait(function, list, event_of(waits[i]));
            if (void *signal = signal_of(all)) check_signal(function, list, event_of(signal));
            if constexpr (is_copy || is_fill)
                check_memory(function, list, std::get<1>(all), std::get<is_fill ? 4 : 3>(all));
            if constexpr (is_copy) check_memory(function, list, std::get<2>(all), std::get<3>(all));
            if constexpr (is_launch)
                for (auto& argument : s.kernels[std::get<1>(all)].memory)
                    if (!memory_at(argument.second))
                        violate(function, "argument " + std::to_string(argument.first) + " was freed");
            if (list.recorded && (list.closed || is_replay))
                violate(function, text_of(list) + " is closed, or none to run anything at once");
            if constexpr (is_replay) {
                for (uint32_t i = 0; i < std::get<1>(all); i++) {
                    List& recorded = list_of(std::get<2>(all)[i]);
                    check_life(std::get<2>(all)[i]);
                    if (!recorded.closed) violate(function, text_of(recorded) + " is not closed");
                    // a list from before the watch has none
                    if (recorded.device && list.device && recorded.device != list.device)
                        violate(function, text_of(recorded) + " is of another device");
                    for (uintptr_t address : addresses_of(recorded))
                        if (!memory_at(address))
                            violate(function, text_of(recorded) + " uses memory that was freed");
                    for (void *kernel : recorded.kernels) check_life(kernel);
                }
            }
        }
        if constexpr (function == CALL_CommandListDestroy) check_list_end(function, list_of(first));
        if constexpr (function == CALL_CommandListGetNextCommandIdExp) {
            List& list = list_of(first);
            if (!list.changeable || list.closed) violate(function, text_of(list) + " is closed, or not mutable");
        }
        if constexpr (function == CALL_CommandListUpdateMutableCommandsExp) {
            List& list = list_of(first);
            if (!list.changeable || !list.closed) violate(function, text_of(list) + " is not closed, or not mutable");
            if (!is_done(list.used)) violate(function, text_of(list) + " may still run");
            each_change(std::get<1>(all), [&](const ArgumentChange *argument, const GroupsChange *groups) {
                if (!list.named.count(argument ? argument->command : groups->command))
                    violate(function, "no such command");
                uintptr_t value = argument ? pointer_in(argument) : 0;
                if (value && !memory_at(value) && is_pointer(list, argument))
                    violate(function, "argument " + std::to_string(argument->index) + " was freed");
            });
        }
        if constexpr (function == CALL_EventHostSynchronize || begins(name, "EventQuery")) {
            Event& event = event_of(first);
            check_host_use(function, event);
            if (event.known && event.counter_based && !event.ever)
                violate(function, "the event was never signalled, which reads as done");
            if (function == CALL_EventQueryKernelTimestamp && event.known && !event.timestamps)
                violate(function, "the event has no timestamps");
        }
        if constexpr (function == CALL_EventHostSignal || function == CALL_EventHostReset) {
            Event& event = event_of(first);
            if (event.known && event.counter_based) violate(function, "the host cannot do this with such an event");
            if (event.known && !event.visible) violate(function, "the event is not visible to the host");
            if (function == CALL_EventHostReset) check_unused(function, event);
        }
        if constexpr (function == CALL_EventDestroy) check_unused(function, event_of(first));
        if constexpr (function == CALL_EventPoolDestroy) {
            if (s.pools.count(first) && s.pools[first].events) violate(function, "it has events");
        }
        if constexpr (function == CALL_KernelDestroy) {
            if (!is_done(s.kernels[first].used)) violate(function, "launches of it are not known to be done");
        }
        if constexpr (function == CALL_ModuleDestroy) {
            Module& module = s.modules[first];
            if (module.kernels) violate(function, "it has kernels");
            if (!is_done(module.used)) violate(function, "launches of its kernels are not known to be done");
        }
        if constexpr (function == CALL_MemFree) {
            Memory *memory = memory_at((uintptr_t) std::get<1>(all));
            if (!is_allocated(first, std::get<1>(all))) violate(function, "it is not allocated");
            if (memory && !is_done(memory->used)) violate(function, "what uses it is not known to be done");
        }
        if constexpr (function == CALL_ContextDestroy) {
            if (s.contexts.count(first) && s.contexts[first])
                violate(function, "it has " + std::to_string(s.contexts[first]) + " objects");
        }
    }

    // By a command of the list, or by whichever runs what is recorded in it.
    static void use(List& list, const void *address) {
        if (list.recorded) {
            if (memory_at((uintptr_t) address)) list.addresses.insert((uintptr_t) address);
        } else {
            use_memory(address, list.number, list.position);
        }
    }

    static void use_kernel(List& list, void *handle) {
        State& s = state();
        if (list.recorded) {
            list.kernels.insert(handle);
            return;
        }
        Kernel& kernel = s.kernels[handle];
        raise(kernel.used, list.number, list.position);
        auto module = s.modules.find(kernel.module);
        if (module != s.modules.end()) raise(module->second.used, list.number, list.position);
    }

    // What a call that succeeded has changed.
    static void follow(const Arguments& all, const std::vector<void *>& waits, Call& seen) {
        State& s = state();
        void *first = (void *) std::get<0>(all);
        (void) s;
        if constexpr (is_append) {
            List& list = list_of(first);
            void *signal = signal_of(all);
            bool is_work = !is_marker;
            if constexpr (is_marker) is_work = !event_of(signal).counter_based;
            if constexpr (is_barrier) is_work = !waits.empty();
            if (is_work && !list.recorded) list.position++;
            for (void *each : waits) waited(list, event_of(each), list.position);
            if (signal) {
                Event& event = event_of(signal);
                signalled(list, event);
                seen.event = new_serial(event);
                if (is_marker) seen.detail = (event.signal & SCOPE_HOST) != 0;
            }
            if constexpr (is_copy || is_fill) use(list, std::get<1>(all));
            if constexpr (is_copy) use(list, std::get<2>(all));
            if constexpr (is_launch) {
                use_kernel(list, std::get<1>(all));
                const auto& memory = s.kernels[std::get<1>(all)].memory;
                if (list.next_name != UINT64_MAX) list.named[list.next_name] = memory;
                else for (auto& argument : memory) use(list, (void *) argument.second);
                list.next_name = UINT64_MAX;
            }
            if constexpr (is_replay) {
                for (uint32_t i = 0; i < std::get<1>(all); i++) {
                    List& recorded = list_of(std::get<2>(all)[i]);
                    raise(recorded.used, list.number, list.position);
                    for (uintptr_t address : addresses_of(recorded)) use(list, (void *) address);
                    for (void *kernel : recorded.kernels) use_kernel(list, kernel);
                }
            }
            if constexpr (function == CALL_CommandListAppendHostFunction)
                if (s.emulating) s.host_calls.push_back({list.after, std::get<1>(all), std::get<2>(all)});
        }
        if constexpr (function == CALL_CommandListClose) list_of(first).closed = true;
        if constexpr (function == CALL_CommandListGetNextCommandIdExp) list_of(first).next_name = *std::get<2>(all);
        if constexpr (function == CALL_CommandListUpdateMutableCommandsExp) {
            List& list = list_of(first);
            list.closed = false;
            each_change(std::get<1>(all), [&](const ArgumentChange *argument, const GroupsChange *) {
                if (!argument) return;
                list.named[argument->command].erase(argument->index);
                if (uintptr_t value = pointer_in(argument))
                    if (memory_at(value)) list.named[argument->command][argument->index] = value;
            });
        }
        if constexpr (function == CALL_CommandListHostSynchronize) told(clock_of(list_of(first)));
        if constexpr (function == CALL_EventHostSynchronize || function == CALL_EventQueryStatus) {
            Event& event = event_of(first);
            if (event.point) told(event.point->clock);
        }
        if constexpr (function == CALL_EventHostSignal) {
            Event& event = event_of(first);
            if (!event.signalled) {
                event.signalled = event.ever = true;
                event.list = 0;
                event.point = nullptr;
                s.closed.erase(event.serial);
            }
            s.opened.notify_all();
        }
        if constexpr (function == CALL_EventHostReset) {
            Event& event = event_of(first);
            event.signalled = false;
            event.list = 0;
            event.point = nullptr;
            event.waiters.clear();
            s.closed.erase(event.serial);
            seen.event = new_serial(event);
            s.closed.insert(event.serial);
        }
        if constexpr (function == CALL_KernelSetArgumentValue) {
            uintptr_t value = 0;
            Kernel& kernel = s.kernels[first];
            kernel.memory.erase(std::get<1>(all));
            if (std::get<2>(all) == sizeof value && std::get<3>(all)) {
                std::memcpy(&value, std::get<3>(all), sizeof value);
                if (memory_at(value)) kernel.memory[std::get<1>(all)] = value;
            }
        }
        made(all, seen);
    }

    static void made(const Arguments& all, Call& seen) {
        State& s = state();
        if constexpr (name.find("Create") != name.npos) {
            s.ended.erase((void *) *std::get<function == CALL_ModuleCreate ? n - 2 : n - 1>(all));
            if constexpr (function == CALL_ModuleCreate) s.ended.erase(*std::get<n - 1>(all));
        }
        void *first = (void *) std::get<0>(all);
        (void) s;
        (void) first;
        if constexpr (function == CALL_ContextCreate) s.contexts[*std::get<2>(all)] = 0;
        if constexpr (function == CALL_CommandListCreateImmediate || function == CALL_CommandListCreate) {
            s.lists.erase(*std::get<3>(all));
            List& list = list_of(*std::get<3>(all));
            list.context = first;
            list.device = std::get<1>(all);
            list.recorded = function == CALL_CommandListCreate;
            if constexpr (function == CALL_CommandListCreate) list.changeable = std::get<2>(all)->next;
            hold(first);
            seen.detail = list.number;
        }
        if constexpr (function == CALL_KernelCreate) {
            s.kernels[*std::get<2>(all)] = {first, {}, {}, {}};
            auto module = s.modules.find(first);
            if (module != s.modules.end()) module->second.kernels++;
        }
        if constexpr (function == CALL_ModuleCreate) {
            s.modules[*std::get<3>(all)] = {first, {}, 0};
            hold(first);
        }
        if constexpr (function == CALL_EventCounterBasedCreate) {
            Event event;
            const CounterDesc *desc = std::get<2>(all);
            event.context = first;
            event.device = std::get<1>(all);
            event.counter_based = event.known = true;
            event.for_immediate = desc->flags & COUNTER_IMMEDIATE;
            event.visible = desc->flags & COUNTER_HOST_VISIBLE;
            event.timestamps = desc->flags & COUNTER_TIMESTAMPS;
            event.signal = desc->signal;
            event.wait = desc->wait;
            seen.event = new_serial(event);
            s.events[*std::get<3>(all)] = event;
            hold(first);
        }
        if constexpr (function == CALL_EventPoolCreate) {
            const EventPoolDesc *desc = std::get<1>(all);
            const CounterPoolDesc *next = (const CounterPoolDesc *) desc->next;
            s.pools[*std::get<4>(all)] = {first, desc->flags, next && next->stype == COUNTER_POOL, 0};
            hold(first);
        }
        if constexpr (function == CALL_EventCreate) {
            Event event;
            const EventDesc *desc = std::get<1>(all);
            auto pool = s.pools.find(first);
            event.pool = first;
            event.signal = desc->signal;
            event.wait = desc->wait;
            if (pool != s.pools.end()) {
                event.known = true;
                event.context = pool->second.context;
                event.counter_based = event.for_immediate = pool->second.counter_based;
                event.visible = pool->second.flags & POOL_HOST_VISIBLE;
                event.timestamps = pool->second.flags & POOL_TIMESTAMPS;
                pool->second.events++;
                hold(event.context);
            }
            seen.event = new_serial(event);
            if (!event.counter_based) s.closed.insert(event.serial);
            s.events[*std::get<2>(all)] = event;
        }
        if constexpr (begins(name, "MemAlloc")) {
            size_t nbytes = std::get<function == CALL_MemAllocShared ? 3 : 2>(all);
            s.memory[(uintptr_t) *std::get<n - 1>(all)] = {first, nbytes, {}};
            hold(first);
        }
    }

    // A context that was made while nobody watched stays unknown: it may be there for good.
    static void hold(void *context) {
        auto found = state().contexts.find(context);
        if (found != state().contexts.end()) found->second++;
    }

    template <class Objects> static void forget(Objects& objects, typename Objects::key_type handle) {
        State& s = state();
        auto found = objects.find(handle);
        if (found == objects.end()) return;
        auto context = s.contexts.find(found->second.context);
        if (context != s.contexts.end()) context->second--;
        objects.erase(found);
    }

    // What a call is about to end, whatever it returns.
    static void ended(const Arguments& all) {
        State& s = state();
        void *first = (void *) std::get<0>(all);
        if constexpr (function != CALL_MemFree) s.ended.insert(first);
        if constexpr (function == CALL_CommandListDestroy) {
            uint32_t number = list_of(first).number;
            s.done[number] = FOREVER;  // told once, it is not told again for each of its objects
            s.numbers.erase(number);
            forget(s.lists, first);
        }
        if constexpr (function == CALL_EventDestroy) {
            auto pool = s.pools.find(event_of(first).pool);
            if (pool != s.pools.end()) pool->second.events--;
            s.closed.erase(event_of(first).serial);
            s.opened.notify_all();
            forget(s.events, first);
        }
        if constexpr (function == CALL_EventPoolDestroy) forget(s.pools, first);
        if constexpr (function == CALL_KernelDestroy) {
            auto module = s.modules.find(s.kernels[first].module);
            if (module != s.modules.end()) module->second.kernels--;
            s.kernels.erase(first);
        }
        if constexpr (function == CALL_ModuleDestroy) forget(s.modules, first);
        if constexpr (function == CALL_MemFree) {
            end_addresses((uintptr_t) std::get<1>(all));
            forget(s.memory, (uintptr_t) std::get<1>(all));
        }
        if constexpr (function == CALL_ContextDestroy) s.contexts.erase(first);
        if constexpr (function == CALL_ModuleBuildLogDestroy) s.logs.erase(first);
    }

    static void check_life(void *handle) {
        if (handle && state().ended.count(handle)) violate(function, "what it is given was destroyed");
    }

    // Answers for hardware that executes nothing. True: the driver is not asked.
    static bool emulate(const Arguments& all, std::unique_lock<std::mutex>& guard, Result& result) {
        if (!state().emulating) return false;
        void *first = (void *) std::get<0>(all);
        if constexpr (function == CALL_CommandListHostSynchronize) {
            auto gates = [&] { return list_of(first).after.gates; };
            if (await(guard, function, std::get<1>(all), gates)) return false;
            result = NOT_READY;
            return true;
        }
        if constexpr (function == CALL_EventQueryKernelTimestamp) {
            *std::get<1>(all) = {};
            result = is_blocked(gates_of(event_of(first))) ? NOT_READY : SUCCESS;
            return true;
        }
        if constexpr (function == CALL_EventHostSynchronize || function == CALL_EventQueryStatus) {
            uint64_t timeout = 0;
            if constexpr (function == CALL_EventHostSynchronize) timeout = std::get<1>(all);
            auto gates = [&] { return gates_of(event_of(first)); };
            bool open = await(guard, function, timeout, gates);
            if (!event_of(first).known) return false;
            if (open) std::apply(original, all);  // whose answer, from memory that nothing changes, is often wrong
            result = open ? SUCCESS : NOT_READY;
            return true;
        }
        return false;
    }

    static Result call(A... args) {
        State& s = state();
        Arguments all(args...);
        void *first = (void *) std::get<0>(all);
        std::vector<void *> waits;
        Call seen = {};
        Result result = 0;
        int64_t code = 0;
        std::chrono::microseconds slow{0};
        bool answered;
        seen.function = function;
        std::unique_lock<std::mutex> guard(s.lock);
        const size_t known = s.violations.size();
        seen.object = (uintptr_t) first;
        if constexpr (is_of_list) {
            List& list = list_of(first);
            seen.object = list.number;
            enter(function, list.inside, "list");
        }
        if constexpr (is_of_kernel) enter(function, s.kernels[first].inside, "kernel");
        if constexpr (is_launch) {
            seen.kernel = word(std::get<1>(all));
            enter(function, s.kernels[std::get<1>(all)].inside, "kernel");
        }
        if constexpr (begins(name, "KernelSetArgument")) seen.detail = std::get<1>(all);
        uint32_t count = 0;
        if (void **events = waits_of(all, &count)) waits.assign(events, events + count);
        for (void *each : waits) seen.waits.push_back(event_of(each).serial);
        if constexpr (is_of_event) seen.event = event_of(first).serial;
        if constexpr (function == CALL_EventHostSynchronize) seen.waits.push_back(seen.event);
        for (void *each : waits) check_life(each);
        check_life(first);
        if constexpr (signals) check_life(signal_of(all));
        if constexpr (is_launch) check_life(std::get<1>(all));
        seen.injected = s.fails(function, code);
        if (seen.injected) result = (Result) code;
        if (!seen.injected || is_end) check(all);
        Arguments passed = all;  // to the driver
        bool is_left_out = false;
        if constexpr (has_waits) {
            if (count && !seen.injected && s.drops_waits(function)) {
                std::get<n - 2>(passed) = 0;
                std::get<n - 1>(passed) = nullptr;
                waits.clear();
                is_left_out = is_barrier;
            }
        }
        // Before the driver is called: another thread may make an object with this handle at once.
        if constexpr (is_end) ended(all);
        if constexpr (is_append && !is_marker) wait_for_room(guard, first);
        auto delay = s.slow.find(function);
        if (delay != s.slow.end()) slow = std::chrono::microseconds(delay->second);
        // What is forbidden does not reach the driver, which need not survive it; but what is made has to be there.
        const bool forbidden = !makes && s.violations.size() != known;
        answered = (seen.injected && !is_end) || forbidden || emulate(all, guard, result);
        guard.unlock();
        if (function != CALL_EventHostSignal) std::this_thread::sleep_for(slow);
        if (!answered) {
            Result said = is_left_out ? SUCCESS : std::apply(original, passed);
            if (!seen.injected) result = said;
        }
        guard.lock();
        seen.status = result;
        if (function == CALL_EventQueryStatus) seen.detail = result;
        if constexpr (is_of_list && !is_end) list_of(first).inside.depth--;
        if constexpr (is_of_kernel && !is_end) s.kernels[first].inside.depth--;
        if constexpr (is_launch) s.kernels[std::get<1>(all)].inside.depth--;
        if constexpr (function == CALL_ModuleCreate)
            if (!answered && *std::get<4>(all)) s.logs[*std::get<4>(all)] = 1;
        if (result == SUCCESS && !is_end) follow(all, waits, seen);
        if (s.recording) s.log.push_back(std::move(seen));
        if constexpr (is_append || function == CALL_EventHostSignal) call_host(guard);
        guard.unlock();
        if (function == CALL_EventHostSignal) std::this_thread::sleep_for(slow);  // when others have seen it
        return result;
    }
};

static void install(Calls& table, bool emulating, GetAllocProperties properties_of) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.properties_of = properties_of;
    s.emulating = emulating;
    s.newest_list = 0;
    s.lists.clear();
    s.events.clear();
    s.pools.clear();
    s.kernels.clear();
    s.modules.clear();
    s.memory.clear();
    s.contexts.clear();
    s.logs.clear();
    s.numbers.clear();
    s.ended.clear();
    s.done.clear();
    s.closed.clear();
    s.host_calls.clear();
    s.violations.clear();
    s.slow.clear();
    s.failures.clear();
    s.room = UINT64_MAX;
    FOREBAY_ZE(FOREBAY_WRAP)
}

static void uninstall(Calls& table) { FOREBAY_ZE(FOREBAY_UNWRAP) }

static void set_recording(bool on) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.recording = on;
    if (on) {
        s.log.clear();
        s.first_serial = s.newest_serial;
    }
    s.failures.clear();
    s.slow.clear();
}

static void set_room(uint64_t commands) {
    std::lock_guard<std::mutex> guard(state().lock);
    state().room = commands;
}

static int blocked_threads() {
    std::lock_guard<std::mutex> guard(state().lock);
    return state().blocked;
}

static void slow_down(int function, uint64_t microseconds) {
    std::lock_guard<std::mutex> guard(state().lock);
    state().slow[function] = microseconds;
}

// The serials since recording began of all events but the idle ones.
static std::vector<int64_t> event_serials(const std::vector<void *>& idle) {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    std::set<void *> unused(idle.begin(), idle.end());
    std::vector<int64_t> found;
    for (auto& entry : s.events)
        if (entry.second.serial > s.first_serial && !unused.count(entry.first))
            found.push_back(entry.second.serial);
    return found;
}

static std::vector<size_t> objects_alive() {
    State& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    return {s.contexts.size(), s.lists.size(), s.events.size(), s.pools.size(), s.modules.size(), s.kernels.size(),
            s.memory.size(), s.logs.size()};
}

static uint32_t number_of(void *list) {
    std::lock_guard<std::mutex> guard(state().lock);
    return list_of(list).number;
}

}
