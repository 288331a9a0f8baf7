// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/json.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "support/random.hpp"

namespace {

using namespace uhsfs;
using namespace std::literals;

TEST(Json, PlainTextStaysAsItIs) {
    EXPECT_EQ(json_string(""), "\"\"");
    EXPECT_EQ(json_string("a b/c-d"), "\"a b/c-d\"");
    EXPECT_EQ(json_string("Grüße €𝄞"), "\"Grüße €𝄞\"");
}

TEST(Json, EscapesWhatJsonRequires) {
    EXPECT_EQ(json_string("\"\\"), R"("\"\\")");
    EXPECT_EQ(json_string("\n\t\r\x1b\x7f"), R"("\n\t\u000d\u001b\u007f")");
    EXPECT_EQ(json_string("\0"sv), R"("\u0000")");
}

TEST(Json, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
    EXPECT_EQ(json_string("a\xff"
                          "b"),
              R"("a\ufffdb")");
    EXPECT_EQ(json_string("\xc3"), R"("\ufffd")");
}

TEST(Utf8, KnowsItsLimits) {
    for (const std::string_view good :
         {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT_TRUE(utf8_valid(good)) << hex_string(good);
    for (const std::string_view bad :
         {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe1\x80",
          "\xe1\x80\xc0", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
        EXPECT_FALSE(utf8_valid(bad)) << hex_string(bad);
}

TEST(Json, AnyBytesGiveWellFormedUtf8WithoutControlCharacters) {
    test::Random random;
    SCOPED_TRACE(random.note());

    for (int round = 0; round < 2000; round++) {
        const auto bytes = random.bytes(random.between(0, 40));
        const std::string text =
            json_string({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
        EXPECT_TRUE(utf8_valid(text));
        for (const char c : text)
            EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    }
}

TEST(Hex, TwoDigitsAByte) { EXPECT_EQ(hex_string("\0\x0f\xff"sv), "000fff"); }

}  // namespace
