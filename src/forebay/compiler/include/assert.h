// Like C's, it may be included again after NDEBUG was changed.
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(...) __FOREBAY_ASSERT((__VA_ARGS__), #__VA_ARGS__)
#endif
