// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

namespace {

using uhsfs::open_file;
using uhsfs::unique_fd;

int descriptor_flags(int fd) { return fcntl(fd, F_GETFD); }

bool is_open(int fd) { return descriptor_flags(fd) >= 0; }

unique_fd open_null() {
    auto fd = open_file("/dev/null", O_RDONLY);
    EXPECT_TRUE(fd) << fd.error().to_string();
    return std::move(*fd);
}

TEST(UniqueFd, ClosesAtTheEndOfItsScope) {
    int number = -1;
    {
        const unique_fd fd = open_null();
        number = fd.get();
        EXPECT_TRUE(fd);
        EXPECT_TRUE(is_open(number));
    }
    EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, EmptyHoldsNothing) {
    const unique_fd fd;

    EXPECT_FALSE(fd);
    EXPECT_EQ(fd.get(), -1);
}

TEST(UniqueFd, MovesWithoutClosing) {
    unique_fd first = open_null();
    const int number = first.get();
    unique_fd second = std::move(first);
    EXPECT_EQ(second.get(), number);
    EXPECT_TRUE(is_open(number));

    unique_fd third = open_null();
    const int replaced = third.get();
    third = std::move(second);
    EXPECT_EQ(third.get(), number);
    EXPECT_TRUE(is_open(number));
    EXPECT_FALSE(is_open(replaced));
}

TEST(UniqueFd, SurvivesAssignmentToItself) {
    unique_fd fd = open_null();
    const int number = fd.get();
    unique_fd &same = fd;
    fd = std::move(same);

    EXPECT_EQ(fd.get(), number);
    EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ReleaseGivesTheDescriptorAway) {
    unique_fd fd = open_null();
    unique_fd keeper(fd.release());

    EXPECT_FALSE(fd);
    EXPECT_TRUE(is_open(keeper.get()));
}

TEST(UniqueFd, ResetKeepsErrno) {
    unique_fd fd(1 << 20);  // no such descriptor: close() sets EBADF
    errno = ENOSPC;
    fd.reset();

    EXPECT_EQ(errno, ENOSPC);
}

TEST(UniqueFd, CloseReportsItsError) {
    unique_fd good = open_null();
    EXPECT_TRUE(good.close("/dev/null"));
    EXPECT_FALSE(good);
    EXPECT_TRUE(good.close("/dev/null")) << "closing nothing succeeds";

    unique_fd bad(1 << 20);
    const auto result = bad.close("gone");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().to_string(), "gone: cannot close: Bad file descriptor");
}

TEST(OpenFile, NamesTheFileItCouldNotOpen) {
    const auto fd = open_file("/nonexistent/file", O_RDONLY);

    ASSERT_FALSE(fd);
    EXPECT_EQ(fd.error().to_string(), "/nonexistent/file: cannot open: No such file or directory");
}

TEST(OpenFile, IsNotInheritedByPrograms) {
    const unique_fd fd = open_null();

    EXPECT_NE(descriptor_flags(fd.get()) & FD_CLOEXEC, 0);
}

}  // namespace
