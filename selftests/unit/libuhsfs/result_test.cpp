// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/result.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

namespace {

using uhsfs::Error;
using uhsfs::fail;
using uhsfs::fail_errno;
using uhsfs::Result;

TEST(Error, RendersEveryPartOnOneLine) {
    const Error error{
        .code = EACCES, .object = "/dev/nvme0n1", .message = "cannot open", .hint = "run as root"};

    EXPECT_EQ(error.to_string(),
              "/dev/nvme0n1: cannot open: Permission denied (hint: run as root)");
    EXPECT_EQ(fmt::format("{}", error), error.to_string());
}

TEST(Error, LeavesOutWhatIsEmpty) {
    EXPECT_EQ((Error{.code = 0, .object = "", .message = "no label given", .hint = ""}.to_string()),
              "no label given");
    EXPECT_EQ((Error{.code = 0, .object = "-b", .message = "not a size", .hint = ""}.to_string()),
              "-b: not a size");
    EXPECT_EQ((Error{.code = ENOSPC, .object = "", .message = "", .hint = ""}.to_string()),
              "No space left on device");
}

TEST(Error, ShowsControlBytesOfUntrustedNames) {
    const Error error{
        .code = 0, .object = "a\nb\x1b[2J\x7f", .message = "bad\tname", .hint = "x\ry"};
    const std::string line = error.to_string();

    EXPECT_EQ(line, R"(a\x0ab\x1b[2J\x7f: bad\x09name (hint: x\x0dy))");
    EXPECT_TRUE(std::none_of(line.begin(), line.end(),
                             [](unsigned char c) { return c < ' ' || c == 0x7f; }));
}

TEST(Error, KeepsUtf8Names) {
    EXPECT_EQ((Error{.code = 0, .object = "λ größe", .message = "unknown", .hint = ""}.to_string()),
              "λ größe: unknown");
}

TEST(Error, KnowsCorruption) {
    EXPECT_EQ((Error{.code = EUCLEAN, .object = "slot 7", .message = "bad checksum", .hint = ""}
                   .to_string()),
              "slot 7: bad checksum: Structure needs cleaning");
}

TEST(Result, FailErrnoTakesThePresentErrno) {
    errno = ENOENT;
    const Result<int> result = fail_errno("/nowhere", "cannot open");

    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ENOENT);
    EXPECT_EQ(result.error().object, "/nowhere");
}

Result<std::unique_ptr<int>> make(int value) {
    if (value < 0)
        return fail(EINVAL, "value", "is negative");
    return std::make_unique<int>(value);
}

Result<int> twice(int value) {
    const std::unique_ptr<int> made = UHSFS_TRY(make(value));

    return *made * 2;
}

TEST(Result, TryYieldsTheValueOrReturnsTheError) {
    ASSERT_TRUE(twice(21));
    EXPECT_EQ(*twice(21), 42);
    ASSERT_FALSE(twice(-1));
    EXPECT_EQ(twice(-1).error().to_string(), "value: is negative: Invalid argument");
}

}  // namespace
