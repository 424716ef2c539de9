// Threads of the standard library by name only, for code of the host beside kernels, which is read and never compiled.
// Sizes are those of libstdc++ on x86-64. What a program passes types of its own, such as lambdas, has a body, since
// nothing else could define it.
#pragma once
#include <__config>
#if !_LIBCPP_HAS_THREADS
namespace std {
#define FOREBAY_MUTEX(name, nbytes, ...)                             \
    class name {                                                     \
        alignas(8) char room[nbytes];                                \
                                                                     \
      public:                                                        \
        __host__ name();                                             \
        name(const name&) = delete;                                  \
        name& operator=(const name&) = delete;                       \
        __host__ void lock();                                        \
        __host__ void unlock();                                      \
        __host__ bool try_lock();                                    \
        __VA_ARGS__                                                  \
    };
#define FOREBAY_TIMED                                                \
    template <class Time> __host__ bool try_lock_for(const Time&);   \
    template <class Time> __host__ bool try_lock_until(const Time&);
#define FOREBAY_SHARED                                               \
    __host__ void lock_shared();                                     \
    __host__ void unlock_shared();                                   \
    __host__ bool try_lock_shared();
FOREBAY_MUTEX(mutex, 40)
FOREBAY_MUTEX(recursive_mutex, 40)
FOREBAY_MUTEX(timed_mutex, 40, FOREBAY_TIMED)
FOREBAY_MUTEX(recursive_timed_mutex, 40, FOREBAY_TIMED)
FOREBAY_MUTEX(shared_mutex, 56, FOREBAY_SHARED)
FOREBAY_MUTEX(shared_timed_mutex, 56, FOREBAY_SHARED FOREBAY_TIMED)
#undef FOREBAY_MUTEX
#undef FOREBAY_TIMED
#undef FOREBAY_SHARED

enum class cv_status { no_timeout, timeout };
class condition_variable {
    alignas(8) char room[48];

  public:
    __host__ condition_variable();
    condition_variable(const condition_variable&) = delete;
    __host__ void notify_one();
    __host__ void notify_all();
    template <class... Arguments> __host__ void wait(Arguments&&...) {}
    template <class Lock, class Time> __host__ cv_status wait_for(Lock&, const Time&);
    template <class Lock, class Time, class Condition> __host__ bool wait_for(Lock&, const Time&, Condition) { return true; }
    template <class Lock, class Time> __host__ cv_status wait_until(Lock&, const Time&);
    template <class Lock, class Time, class Condition> __host__ bool wait_until(Lock&, const Time&, Condition) { return true; }
};
class condition_variable_any : public condition_variable {
    alignas(8) char more[16];
};

class thread {
    unsigned long handle;

  public:
    using id = unsigned long;
    using native_handle_type = unsigned long;
    __host__ thread() noexcept;
    template <class F, class... Arguments> __host__ explicit thread(F&&, Arguments&&...) {}
    __host__ thread(thread&&) noexcept;
    __host__ ~thread();
    __host__ thread& operator=(thread&&) noexcept;
    __host__ bool joinable() const noexcept;
    __host__ void join();
    __host__ void detach();
    __host__ id get_id() const noexcept;
    __host__ native_handle_type native_handle();
    __host__ static unsigned hardware_concurrency() noexcept;
};
using jthread = thread;
namespace this_thread {
__host__ thread::id get_id() noexcept;
__host__ void yield() noexcept;
template <class Time> __host__ void sleep_for(const Time&);
template <class Time> __host__ void sleep_until(const Time&);
}  // namespace this_thread

enum class launch { async = 1, deferred = 2 };
enum class future_status { ready, timeout, deferred };
template <class T>
class future {
    void* room[2];

  public:
    __host__ future() noexcept;
    __host__ future(future&&) noexcept;
    __host__ ~future();
    __host__ future& operator=(future&&) noexcept;
    __host__ T get();
    __host__ future share();
    __host__ bool valid() const noexcept;
    __host__ void wait() const;
    template <class Time> __host__ future_status wait_for(const Time&) const;
    template <class Time> __host__ future_status wait_until(const Time&) const;
};
template <class T> using shared_future = future<T>;
template <class T>
class promise {
    void* room[3];

  public:
    __host__ promise();
    __host__ promise(promise&&) noexcept;
    __host__ ~promise();
    __host__ future<T> get_future();
    template <class... Values> __host__ void set_value(Values&&...);
    template <class Error> __host__ void set_exception(Error);
};
template <class Function>
class packaged_task;
template <class T, class... Arguments>
class packaged_task<T(Arguments...)> {
    void* room[2];

  public:
    __host__ packaged_task() noexcept;
    template <class F> __host__ explicit packaged_task(F&&) {}
    __host__ packaged_task(packaged_task&&) noexcept;
    __host__ ~packaged_task();
    __host__ packaged_task& operator=(packaged_task&&) noexcept;
    __host__ bool valid() const noexcept;
    __host__ future<T> get_future();
    __host__ void operator()(Arguments...);
    __host__ void reset();
};
template <class F, class... Arguments>
__host__ auto async(F&& f, Arguments&&... arguments) -> future<decltype(f(static_cast<Arguments&&>(arguments)...))> {
    return {};
}
template <class F, class... Arguments>
__host__ auto async(launch, F&& f, Arguments&&... arguments)
    -> future<decltype(f(static_cast<Arguments&&>(arguments)...))> {
    return {};
}
template <class... Mutexes>
class scoped_lock {
  public:
    __host__ explicit scoped_lock(Mutexes&...);
    __host__ ~scoped_lock();
};
}  // namespace std
#endif
