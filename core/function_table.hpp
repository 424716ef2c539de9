// One list of a driver's functions, and what follows from it.
//
// The list is a macro that calls another one for each function: X(result, name, parameters).

#pragma once

#include <cstdint>

namespace forebay {

// An entry that is called like the function, and returns the `Status` of core/driver.pxd: 0, or the number of the
// function and the error code.
template <int number, class Code, class... A> struct Checked {
    Code (*function)(A...);

    int64_t operator()(A... arguments) const {
        const Code code = function(arguments...);
        return __builtin_expect(code == 0, 1) ? 0 : (int64_t) number << 32 | (uint32_t) code;
    }
};

// Functions that return no error code are entries as they are.
template <int number, class F> struct Entry { typedef F *type; };
template <int number, class... A> struct Entry<number, int32_t(A...)> { typedef Checked<number, int32_t, A...> type; };
template <int number, class... A> struct Entry<number, uint32_t(A...)> { typedef Checked<number, uint32_t, A...> type; };

}

#define FOREBAY_POINTER(result, name, parameters) result (*name) parameters;
#define FOREBAY_CHECKED(result, name, parameters) forebay::Entry<CALL_##name, result parameters>::type name;
#define FOREBAY_NUMBER(result, name, parameters) CALL_##name,
#define FOREBAY_NAME(result, name, parameters) #name,

// Defines the table of pointers, `Calls`; the number of each function, CALL_name; and the names by these numbers.
#define FOREBAY_FUNCTION_TABLE(LIST) FOREBAY_TABLE(LIST, FOREBAY_POINTER)
// The same, where functions with error codes return a `Status`.
#define FOREBAY_CHECKED_TABLE(LIST) FOREBAY_TABLE(LIST, FOREBAY_CHECKED)
#define FOREBAY_TABLE(LIST, ENTRY) \
    enum Call { LIST(FOREBAY_NUMBER) N_CALLS }; \
    struct Calls { LIST(ENTRY) }; \
    constexpr const char *call_names[] = {LIST(FOREBAY_NAME)};
