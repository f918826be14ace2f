// SPDX-License-Identifier: MIT
//
// everything_of_cxx.cc - the part of everything.c that needs C++: every form of operator new with its delete,
// containers, and exceptions (which the run-time library allocates).

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

unsigned check(void *block, std::size_t size, std::size_t alignment)
{
    if (block == nullptr || reinterpret_cast<std::uintptr_t>(block) % alignment != 0)
        return 1;
    std::memset(block, 0x5A, size);
    return 0;
}

struct alignas(256) Wide {
    char bytes[700];
};

} // namespace

extern "C" unsigned everything_of_cxx();

extern "C" unsigned everything_of_cxx()
{
    constexpr std::align_val_t page{4096};
    unsigned errors = 0;

    for (const std::size_t size : {0, 1, 40, 3000, 50000, 1200000}) {
        void *const blocks[] = {
            ::operator new(size),
            ::operator new[](size),
            ::operator new(size, std::nothrow),
            ::operator new[](size, std::nothrow),
            ::operator new(size, page),
            ::operator new[](size, page),
            ::operator new(size, page, std::nothrow),
            ::operator new[](size, page, std::nothrow),
        };
        for (unsigned i = 0; i < 8; i++)
            errors += check(blocks[i], size, i < 4 ? 16 : 4096);
        ::operator delete(blocks[0], size);
        ::operator delete[](blocks[1], size);
        ::operator delete(blocks[2], std::nothrow);
        ::operator delete[](blocks[3]);
        ::operator delete(blocks[4], size, page);
        ::operator delete[](blocks[5], size, page);
        ::operator delete(blocks[6], page, std::nothrow);
        ::operator delete[](blocks[7], page);
    }

    std::map<std::string, std::vector<std::string>> words;
    for (int i = 0; i < 500; i++)
        words["key " + std::to_string(i % 50)].push_back(std::string(static_cast<std::size_t>(i), 'w'));
    for (int i = 0; i < 500; i++)
        errors += words["key " + std::to_string(i % 50)].at(static_cast<std::size_t>(i / 50)).size() !=
                  static_cast<std::size_t>(i);

    const std::unique_ptr<Wide[]> wide(new Wide[20]);
    errors += reinterpret_cast<std::uintptr_t>(wide.get()) % 256 != 0;

    try {
        throw std::runtime_error(std::string(2000, 'e'));
    } catch (const std::exception &caught) {
        errors += std::strlen(caught.what()) != 2000;
    }
    return errors;
}
