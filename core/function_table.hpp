// One list of a driver's functions, and what follows from it.
//
// The list is a macro that calls another one for each function: X(result, name, parameters).

#pragma once

#define FOREBAY_POINTER(result, name, parameters) result (*name) parameters;
#define FOREBAY_NUMBER(result, name, parameters) CALL_##name,
#define FOREBAY_NAME(result, name, parameters) #name,

// Defines the table of pointers, `Calls`; the number of each function, CALL_name; and the names by these numbers.
#define FOREBAY_FUNCTION_TABLE(LIST) \
    struct Calls { LIST(FOREBAY_POINTER) }; \
    enum Call { LIST(FOREBAY_NUMBER) N_CALLS }; \
    constexpr const char *call_names[] = {LIST(FOREBAY_NAME)};
