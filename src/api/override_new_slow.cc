// SPDX-License-Identifier: MIT
// override_new_slow.cc - see new_slow.h. The one C++ file: a function of C cannot throw.
//
// With SMM_WEAK_CXX (the shared library) nothing of the C++ run-time library is needed at load time: a C
// program has none, and never comes here. A C++ program brings it along, and the weak names find it.
#include <cstddef>
#include <new>

#include "api/new_slow.h"

#if SMM_WEAK_CXX
#include <dlfcn.h>

// Weak by declaration where the code asks whether they are there, by directive where the compiler uses them.
#define MAYBE_MISSING __attribute__((weak))
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n"
        ".weak _ZSt9terminatev\n");
#else
#define MAYBE_MISSING
#endif

namespace std {
// Exported by libstdc++ and by libc++: throws from inside the library, so that no type information of the
// exception is needed here.
[[noreturn]] MAYBE_MISSING void __throw_bad_alloc();
MAYBE_MISSING new_handler get_new_handler() noexcept;
} // namespace std

extern "C" {
// entry/slow.h, which is C11.
void *smm_malloc_slow(std::size_t size);
void *smm_aligned(std::size_t alignment, std::size_t size);
[[noreturn]] void smm_new_cannot_throw(void);
}

namespace {

#if SMM_WEAK_CXX
// A C program that loads C++ libraries for their own use only (RTLD_LOCAL, as Python does) has the run-time
// library in the process, but not where weak names look.
void *find(const char *name)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++.so.1"};

    for (const char *const library : libraries)
        if (void *const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD))
            if (void *const symbol = dlsym(handle, name))
                return symbol;
    return nullptr;
}

template <typename Function> Function found(Function weak, const char *name)
{
    return weak != nullptr ? weak : reinterpret_cast<Function>(find(name));
}
#else
template <typename Function> Function found(Function strong, const char *)
{
    return strong;
}
#endif

std::new_handler current_handler()
{
    const auto get = found(&std::get_new_handler, "_ZSt15get_new_handlerv");
    return get != nullptr ? get() : nullptr;
}

[[noreturn]] void throw_bad_alloc()
{
    if (const auto raise = found(&std::__throw_bad_alloc, "_ZSt17__throw_bad_allocv"))
        raise();
    smm_new_cannot_throw();
}

void *allocate(std::size_t alignment, std::size_t size)
{
    return alignment == 0 ? smm_malloc_slow(size) : smm_aligned(alignment, size);
}

// Null when there is neither memory nor a handler.
void *allocate_or_handle(std::size_t alignment, std::size_t size)
{
    for (;;) {
        if (void *const block = allocate(alignment, size))
            return block;
        const std::new_handler handler = current_handler();
        if (handler == nullptr)
            return nullptr;
        handler();
    }
}

void *allocate_or_throw(std::size_t alignment, std::size_t size)
{
    void *const block = allocate_or_handle(alignment, size);
    if (block == nullptr)
        throw_bad_alloc();
    return block;
}

template <typename... Alignment> void *form_or_null(void *(*form)(std::size_t, Alignment...), std::size_t size,
                                                    Alignment... alignment) noexcept
{
    try {
        return form(size, alignment...);
    } catch (...) {
        return nullptr;
    }
}

// A handler gives up by throwing.
void *allocate_or_null(std::size_t alignment, std::size_t size) noexcept
{
    try {
        return allocate_or_handle(alignment, size);
    } catch (...) {
        return nullptr;
    }
}

} // namespace

void *smm_new_slow(std::size_t size)
{
    return allocate_or_throw(0, size);
}

void *smm_new_aligned_slow(std::size_t alignment, std::size_t size)
{
    return allocate_or_throw(alignment, size);
}

void *smm_new_nothrow_slow(std::size_t size)
{
    return allocate_or_null(0, size);
}

void *smm_new_aligned_nothrow_slow(std::size_t alignment, std::size_t size)
{
    return allocate_or_null(alignment, size);
}

void *smm_new_nothrow_of_program(std::size_t size)
{
    return form_or_null<>(::operator new, size);
}

void *smm_new_array_nothrow_of_program(std::size_t size)
{
    return form_or_null<>(::operator new[], size);
}

void *smm_new_aligned_nothrow_of_program(std::size_t alignment, std::size_t size)
{
    return form_or_null<std::align_val_t>(::operator new, size, std::align_val_t{alignment});
}

void *smm_new_array_aligned_nothrow_of_program(std::size_t alignment, std::size_t size)
{
    return form_or_null<std::align_val_t>(::operator new[], size, std::align_val_t{alignment});
}
