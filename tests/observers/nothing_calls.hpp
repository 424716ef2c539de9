// The record of the calls of the driver that executes nothing.

#pragma once

#include "tests/observers/record.hpp"

namespace forebay_observer {

static EventRecord& state() {
    static EventRecord& only = *new EventRecord();  // never destroyed: threads may still call while the process ends
    return only;
}

static Record& record() { return state(); }

typedef std::mutex Holding;
static Holding& holding = *new Holding();  // while a gate is made, and not yet in the record

static void forget_all() {
    std::lock_guard<std::mutex> guard(state().lock);
    state().begin();
}

static int64_t serial_of(void* event) {
    std::lock_guard<std::mutex> guard(state().lock);
    return state().serial_of((uintptr_t) event);
}

static int64_t made(void* event) {
    EventRecord& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.references[++s.newest_serial] = 1;
    return s.serials[(uintptr_t) event] = s.newest_serial;
}

static void forget(void* event) {
    EventRecord& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.count(s.serial_of((uintptr_t) event), -1);
    s.serials.erase((uintptr_t) event);  // before the handle can come again
}

static void note(int function, void* object, void* kernel, const std::vector<int64_t>& waits, int64_t event,
                 int64_t detail, int64_t status, bool injected) {
    EventRecord& s = state();
    std::lock_guard<std::mutex> guard(s.lock);
    s.log.push_back({function, (uintptr_t) object, (uintptr_t) kernel, waits, event, detail, status, injected});
}

static bool fails(int function, int64_t& code) {
    std::lock_guard<std::mutex> guard(state().lock);
    return state().fails(function, code);
}

static std::vector<int64_t> alive() {
    return state().alive();
}

}
