// SPDX-License-Identifier: MIT
//
// new_failure.cc - what every form of operator new does when there is no memory: it calls the new handler
// until that gives up or there is none, then throws std::bad_alloc, or returns null for the nothrow forms;
// and every form of delete takes back what its new gave.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "which_malloc.h"

namespace {

int failures = 0;

void expect(bool holds, const char *form, const char *what)
{
    if (!holds) {
        std::fprintf(stderr, "%s: %s\n", form, what);
        failures++;
    }
}

constexpr std::align_val_t kPage{4096};

// Each form, and the delete that belongs to it.
struct Form {
    const char *name;
    bool throws;
    std::size_t alignment;
    void *(*take)(std::size_t);
    void (*give)(void *, std::size_t);
};

const Form forms[] = {
    {"new", true, 16, [](std::size_t n) { return ::operator new(n); }, [](void *p, std::size_t) { ::operator delete(p); }},
    {"new[]", true, 16, [](std::size_t n) { return ::operator new[](n); },
     [](void *p, std::size_t) { ::operator delete[](p); }},
    {"new, sized delete", true, 16, [](std::size_t n) { return ::operator new(n); },
     [](void *p, std::size_t n) { ::operator delete(p, n); }},
    {"new[], sized delete[]", true, 16, [](std::size_t n) { return ::operator new[](n); },
     [](void *p, std::size_t n) { ::operator delete[](p, n); }},
    {"nothrow new", false, 16, [](std::size_t n) { return ::operator new(n, std::nothrow); },
     [](void *p, std::size_t) { ::operator delete(p, std::nothrow); }},
    {"nothrow new[]", false, 16, [](std::size_t n) { return ::operator new[](n, std::nothrow); },
     [](void *p, std::size_t) { ::operator delete[](p, std::nothrow); }},
    {"aligned new", true, 4096, [](std::size_t n) { return ::operator new(n, kPage); },
     [](void *p, std::size_t) { ::operator delete(p, kPage); }},
    {"aligned new[]", true, 4096, [](std::size_t n) { return ::operator new[](n, kPage); },
     [](void *p, std::size_t) { ::operator delete[](p, kPage); }},
    {"aligned new, sized delete", true, 4096, [](std::size_t n) { return ::operator new(n, kPage); },
     [](void *p, std::size_t n) { ::operator delete(p, n, kPage); }},
    {"aligned new[], sized delete[]", true, 4096, [](std::size_t n) { return ::operator new[](n, kPage); },
     [](void *p, std::size_t n) { ::operator delete[](p, n, kPage); }},
    {"aligned nothrow new", false, 4096, [](std::size_t n) { return ::operator new(n, kPage, std::nothrow); },
     [](void *p, std::size_t) { ::operator delete(p, kPage, std::nothrow); }},
    {"aligned nothrow new[]", false, 4096, [](std::size_t n) { return ::operator new[](n, kPage, std::nothrow); },
     [](void *p, std::size_t) { ::operator delete[](p, kPage, std::nothrow); }},
};

// Above PTRDIFF_MAX, beyond the address space, and so large that adding an alignment overflows.
const std::size_t impossible[] = {SIZE_MAX / 2 + 2, std::size_t{1} << 50, SIZE_MAX, SIZE_MAX - 100};

int handler_calls = 0;

// Gives up at its third call, as a handler does that has nothing left to release.
void uninstalling_handler()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

struct FromHandler : std::bad_alloc {
    std::string text = std::string(500, 'h');
};

void throwing_handler()
{
    handler_calls++;
    throw FromHandler();
}

// What came of an attempt: a block, null, std::bad_alloc, or the handler's own exception.
enum class Outcome { block, null, bad_alloc, from_handler, other };

Outcome attempt(const Form &form, std::size_t size)
{
    try {
        void *const block = form.take(size);
        if (block == nullptr)
            return Outcome::null;
        form.give(block, size);
        return Outcome::block;
    } catch (const FromHandler &) {
        return Outcome::from_handler;
    } catch (const std::bad_alloc &) {
        return Outcome::bad_alloc;
    } catch (...) {
        return Outcome::other;
    }
}

void test_failure(const Form &form, std::size_t size)
{
    const Outcome refused = form.throws ? Outcome::bad_alloc : Outcome::null;

    std::set_new_handler(nullptr);
    expect(attempt(form, size) == refused, form.name, "without a handler: neither std::bad_alloc nor null");

    handler_calls = 0;
    std::set_new_handler(uninstalling_handler);
    expect(attempt(form, size) == refused, form.name, "after the handler gave up: neither std::bad_alloc nor null");
    expect(handler_calls == 3, form.name, "the handler was not called until it gave up");

    // The nothrow forms catch what the handler throws.
    handler_calls = 0;
    std::set_new_handler(throwing_handler);
    expect(attempt(form, size) == (form.throws ? Outcome::from_handler : Outcome::null), form.name,
           "an exception of the handler went astray");
    expect(handler_calls == 1, form.name, "a handler that throws was not called once");
    std::set_new_handler(nullptr);
}

void test_success(const Form &form)
{
    for (const std::size_t size : {0, 1, 8, 100, 4096, 5000, 16384, 20000, 1000000, 5000000}) {
        void *const block = form.take(size);
        void *const other = form.take(size);
        expect(block != nullptr && other != nullptr && block != other, form.name, "no block of its own");
        expect(reinterpret_cast<std::uintptr_t>(block) % form.alignment == 0, form.name, "not aligned");
        std::memset(block, 1, size);
        std::memset(other, 2, size);
        form.give(block, size);
        form.give(other, size);
    }
    form.give(nullptr, 0);
}

} // namespace

int main()
{
    require_our_malloc();
    for (const Form &form : forms) {
        for (const std::size_t size : impossible)
            test_failure(form, size);
        test_success(form);
    }
    return failures != 0;
}
