// SPDX-License-Identifier: MIT
// override_new_slow.cc - see new_slow.h. The one C++ file: a function of C cannot throw.
//
// With SMM_WEAK_CXX (the shared library) nothing of the C++ run-time library is needed at load time: a C
// program has none, and never comes here. A C++ program brings it along, and the weak names find it.
#include <cstddef>
#include <new>

#include "api/new_slow.h"

#if SMM_WEAK_CXX
__asm__(".weak _ZSt17__throw_bad_allocv\n"
        ".weak _ZSt15get_new_handlerv\n"
        ".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n"
        ".weak _ZSt9terminatev\n");
#endif

namespace std {
// Exported by libstdc++ and by libc++: throws from inside the library, so that no type information of the
// exception is needed here.
[[noreturn]] void __throw_bad_alloc();
} // namespace std

extern "C" {
// entry/slow.h, which is C11.
void *smm_malloc_slow(std::size_t size);
void *smm_aligned(std::size_t alignment, std::size_t size);
}

namespace {

void *allocate(std::size_t alignment, std::size_t size)
{
    return alignment == 0 ? smm_malloc_slow(size) : smm_aligned(alignment, size);
}

void *allocate_or_throw(std::size_t alignment, std::size_t size)
{
    for (;;) {
        if (void *const block = allocate(alignment, size))
            return block;
        const std::new_handler handler = std::get_new_handler();
        if (handler == nullptr)
            std::__throw_bad_alloc();
        handler();
    }
}

void *allocate_or_null(std::size_t alignment, std::size_t size) noexcept
{
    try {
        return allocate_or_throw(alignment, size);
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
