// SPDX-License-Identifier: GPL-2.0
#include "libuhsfs/value.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace uhsfs;

TEST(Value, JsonHasRawNumbersAndTextHasUnits) {
    Value value = Value::object();

    value.add("size", 4096, "4.0 KiB");
    value.add("most", UINT64_MAX);
    value.add("least", INT64_MIN);
    value.add("clean", true);
    value.add("nothing", Value::null());
    EXPECT_EQ(value.to_json(),
              R"({"size": 4096, "most": 18446744073709551615, "least": -9223372036854775808, )"
              R"("clean": true, "nothing": null})");
    EXPECT_EQ(value.to_text(),
              "size:    4.0 KiB\n"
              "most:    18446744073709551615\n"
              "least:   -9223372036854775808\n"
              "clean:   yes\n"
              "nothing: none\n");
}

TEST(Value, StringsThatAreNoUtf8StandInHexAsWell) {
    Value value = Value::object();

    value.add("name",
              "a\xff"
              "b");
    EXPECT_EQ(value.to_json(), R"({"name": "a\ufffdb", "name-hex": "61ff62"})");
    EXPECT_EQ(value.to_text(), "name: a\\xffb\n");
}

TEST(Value, TextIsOneLineForEachMember) {
    Value value = Value::object();

    value.add("name", "a\nb\\c");
    EXPECT_EQ(value.to_text(), "name: a\\x0ab\\\\c\n");
}

TEST(Value, ListsOfScalarsAreOneLine) {
    Value value = Value::object();
    Value list = Value::array();

    list.push(Value::word("a")).push(Value::number(2));
    value.add("list", list);
    value.add("empty", Value::array());
    EXPECT_EQ(value.to_json(), R"({"list": ["a", 2], "empty": []})");
    EXPECT_EQ(value.to_text(), "list:  a, 2\nempty: none\n");
}

TEST(Value, ListsOfEqualObjectsAreATable) {
    Value value = Value::object();
    Value rows = Value::array();

    rows.push(Value::object().add("block", 1).add("name", "x"));
    rows.push(Value::object().add("block", 100000).add("name", "ü"));
    value.add("rows", rows);
    EXPECT_EQ(value.to_text(),
              "rows:\n"
              "    block   name\n"
              "    1       x\n"
              "    100000  ü\n");
}

TEST(Value, OtherObjectsAreIndentedAndNumbered) {
    Value value = Value::object();
    Value rows = Value::array();

    rows.push(Value::object().add("a", 1));
    rows.push(Value::object().add("b", Value::object().add("c", 2)));
    value.add("rows", rows);
    EXPECT_EQ(value.to_text(),
              "rows[0]:\n"
              "    a: 1\n"
              "rows[1]:\n"
              "    b:\n"
              "        c: 2\n");
}

TEST(Value, FindsMembers) {
    Value value = Value::object();

    value.extend(Value::object().add("a", 1));
    ASSERT_NE(value.find("a"), nullptr);
    EXPECT_EQ(value.find("a")->text(), "1");
    EXPECT_EQ(value.find("b"), nullptr);
}

}  // namespace
