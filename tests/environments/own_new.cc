// SPDX-License-Identifier: MIT
//
// own_new.cc - a program that replaces operator new and delete by its own, as the standard lets it: the plain forms,
// and with ALIGNED_TOO those for aligned types. Every other form comes to these; a block of one that went past them,
// or was freed past them, is found by the header that they put before it. The library has no say here but malloc.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define FAMILY "malloc", "free", "calloc", "_Znam", "_ZdaPv", "_ZnwmRKSt9nothrow_t"
#include "../preload/which_malloc.h"

namespace {

struct alignas(64) Header {
    std::uint64_t mark;
};

constexpr std::uint64_t mark = 0x6F776E206E657721;
long made, given;
bool refuse;

// Not inlined: the compiler would see blocks that begin in the middle of others.
__attribute__((noinline)) void *make(std::size_t size, std::size_t alignment)
{
    if (refuse)
        throw std::bad_alloc();
    auto *const header = static_cast<Header *>(std::aligned_alloc(alignment, (size + sizeof(Header) + 63) / 64 * 64));
    if (header == nullptr)
        throw std::bad_alloc();
    made++;
    header->mark = mark;
    return header + 1;
}

__attribute__((noinline)) void give(void *block)
{
    if (block == nullptr)
        return;
    Header *const header = static_cast<Header *>(block) - 1;
    if (header->mark != mark) {
        std::fputs("a block that the program's operator new did not make\n", stderr);
        std::_Exit(7);
    }
    header->mark = 0;
    given++;
    std::free(header);
}

struct alignas(64) Wide {
    char bytes[128];
};

} // namespace

__attribute__((noinline)) void *operator new(std::size_t size)
{
    return make(size, 64);
}

__attribute__((noinline)) void operator delete(void *block) noexcept
{
    give(block);
}

#ifdef ALIGNED_TOO
__attribute__((noinline)) void *operator new(std::size_t size, std::align_val_t)
{
    return make(size, 64);
}

__attribute__((noinline)) void operator delete(void *block, std::align_val_t) noexcept
{
    give(block);
}
#endif

int main()
{
    require_our_malloc();
    for (int i = 0; i < 300; i++) {
        std::vector<std::string> words(10, std::string(static_cast<std::size_t>(i), 'w'));
        const std::unique_ptr<int[]> array(new int[100]);
        const std::unique_ptr<long> one(new (std::nothrow) long(i));
        const std::unique_ptr<std::string[]> more(new (std::nothrow) std::string[5]);
        const std::unique_ptr<Wide> wide(new Wide);
        const std::unique_ptr<Wide[]> wides(new (std::nothrow) Wide[3]);
        ::operator delete(::operator new(10), std::nothrow);
        ::operator delete[](::operator new[](10, std::nothrow), std::size_t{10});
        // The library's own use of the nothrow form.
        std::vector<int> numbers(500, i);
        std::stable_sort(numbers.begin(), numbers.end());
        words.emplace_back(500, 'x');
        if (words.front().size() != static_cast<std::size_t>(i) || *one != i)
            return 1;
    }
    // By their names: the compiler may leave out an expression with new whose block is not used.
    refuse = true;
    bool refused = ::operator new(10, std::nothrow) == nullptr && ::operator new[](10, std::nothrow) == nullptr;
#ifdef ALIGNED_TOO
    constexpr std::align_val_t wide{64};
    refused = refused && ::operator new(10, wide, std::nothrow) == nullptr;
    refused = refused && ::operator new[](10, wide, std::nothrow) == nullptr;
#endif
    refuse = false;
    if (!refused) {
        std::fputs("a nothrow form did not come to the program's\n", stderr);
        return 1;
    }
    return made > 300 * 15 && made == given ? 0 : 1;
}
