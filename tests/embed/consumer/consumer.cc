// SPDX-License-Identifier: MIT
//
// consumer.cc [replaced] - containers whose memory is ShardMM's, by an allocator of their own; with "replaced"
// operator new must be ShardMM's, too.
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <shardmm/shardmm.h>

template <class T> struct Allocator {
    using value_type = T;

    Allocator() = default;
    template <class U> Allocator(const Allocator<U> &) noexcept {}

    T *allocate(std::size_t count)
    {
        void *const block = shardmm_aligned_alloc(alignof(T) < 16 ? 16 : alignof(T), count * sizeof(T));
        if (block == nullptr)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }

    void deallocate(T *block, std::size_t) noexcept { shardmm_free(block); }

    template <class U> bool operator==(const Allocator<U> &) const noexcept { return true; }
    template <class U> bool operator!=(const Allocator<U> &) const noexcept { return false; }
};

int main(int count, char **arguments)
{
    const bool replaced = count > 1 && std::strcmp(arguments[1], "replaced") == 0;

    if (std::string(SHARDMM_VERSION_STRING) != shardmm_version()) {
        std::cerr << "the header and the library are of different versions\n";
        return 1;
    }

    std::vector<int, Allocator<int>> numbers;
    std::map<int, std::string, std::less<>, Allocator<std::pair<const int, std::string>>> names;
    for (int i = 0; i < 100000; i++) {
        numbers.push_back(i);
        if (i % 100 == 0)
            names[i] = std::to_string(i);
    }
    if (numbers[99999] != 99999 || names.size() != 1000 || names[500] != "500") {
        std::cerr << "a container lost its contents\n";
        return 1;
    }

    try {
        std::vector<char, Allocator<char>> huge(std::size_t{1} << 50);
        std::cerr << "a pebibyte was to be had\n";
        return 1;
    } catch (const std::bad_alloc &) {
    }

    if (replaced) {
        const auto text = std::make_unique<char[]>(1000);
        if (shardmm_usable_size(text.get()) != shardmm_good_size(1000)) {
            std::cerr << "operator new is not ShardMM's\n";
            return 1;
        }
        try {
            // Not a constant, or the compiler would know better than to try.
            volatile std::size_t size = std::size_t{1} << 50;
            ::operator delete(::operator new(size));
            std::cerr << "operator new found a pebibyte\n";
            return 1;
        } catch (const std::bad_alloc &) {
        }
    }
    std::cout << "ShardMM " << shardmm_version() << '\n';
    return 0;
}
