// SPDX-License-Identifier: MIT
//
// private_cxx_plugin.cc - the C++ library that private_cxx.c loads: tries operator new in every manner, and counts
// what is not as it should be.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>

namespace {

int failures = 0;
int handler_calls = 0;

void expect(bool holds, const char *what)
{
    if (!holds) {
        std::fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

void handler()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

constexpr std::align_val_t kPage{4096};

// The compiler may leave out what nobody looks at.
char *hidden(char *array)
{
    __asm__ volatile("" : "+r"(array));
    return array;
}

// Whether the function throws std::bad_alloc, and nothing else.
template <typename Function> bool throws_bad_alloc(Function function)
{
    try {
        function();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

} // namespace

extern "C" __attribute__((visibility("default"))) int plugin_run(std::size_t size)
{
    const bool possible = size < PTRDIFF_MAX / 2 && size < (std::size_t)1 << 40;

    failures = 0;
    expect(throws_bad_alloc([size] { ::operator delete(::operator new(size)); }) == !possible, "new");
    expect(throws_bad_alloc([size] { delete[] hidden(new char[size]); }) == !possible, "new char[]");
    expect(throws_bad_alloc([size] { ::operator delete(::operator new(size, kPage), kPage); }) == !possible,
           "aligned new");

    void *const block = ::operator new(size, std::nothrow);
    expect((block != nullptr) == possible, "nothrow new");
    ::operator delete(block);
    char *const array = hidden(new (std::nothrow) char[size]);
    expect((array != nullptr) == possible, "nothrow new char[]");
    delete[] array;
    void *const aligned = ::operator new(size, kPage, std::nothrow);
    expect((aligned != nullptr) == possible && reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0,
           "aligned nothrow new");
    ::operator delete(aligned, kPage);

    handler_calls = 0;
    std::set_new_handler(handler);
    expect(throws_bad_alloc([size] { ::operator delete(::operator new(size)); }) == !possible, "new with a handler");
    expect(handler_calls == (possible ? 0 : 3), "the handler is called until it gives up");
    std::set_new_handler(nullptr);
    return failures;
}
