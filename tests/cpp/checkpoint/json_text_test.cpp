#include "checkpoint/json_text.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace interlace::checkpoint::json_text_test {

std::string string_of(std::string_view text) {
  json_text json(text);
  json.check_utf8();
  std::string read = json.string();
  json.end();
  return read;
}

// Returns the position of the byte at which the reader refuses a value.
std::size_t refused(std::string_view text) {
  try {
    json_text json(text);
    json.check_utf8();
    (void)json.value();
    json.end();
  } catch (const json_error& e) {
    return e.at();
  }
  ADD_FAILURE() << text << " was taken";
  return 0;
}

TEST(json_text, texts_are_decoded) {
  EXPECT_EQ(string_of(R"("a\"\\\/\b\f\n\r\t\u0041")"), "a\"\\/\b\f\n\r\tA");
  EXPECT_EQ(string_of(R"("\u00e9\u20ac\ud83d\ude00")"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(string_of("\"\\u0000\""), std::string(1, '\0'));
  EXPECT_EQ(string_of(" \"\xf4\x8f\xbf\xbf\"\t"), "\xf4\x8f\xbf\xbf");
}

TEST(json_text, values_are_read_whole) {
  json_text json(R"( {"a":[1,{"b":null}],"c":-0.5e+3} , "d" : true)");
  EXPECT_EQ(json.value(), R"({"a":[1,{"b":null}],"c":-0.5e+3})");
  EXPECT_TRUE(json.take(','));
  EXPECT_EQ(json.string(), "d");
  json.need(':');
  EXPECT_EQ(json.value(), "true");
  json.end();
}

TEST(json_text, counts_have_no_sign_and_no_fraction) {
  for (const auto& [text, number] : std::map<std::string, std::uint64_t>{
           {"0", 0}, {"7", 7}, {"18446744073709551615", 18446744073709551615U}}) {
    EXPECT_EQ(json_text(text).count(), number);
  }
  for (const char* text : {"-0", "-1", "1.0", "1e3", "18446744073709551616", "\"1\"", "[]"}) {
    EXPECT_EQ(json_text(text).count(), std::nullopt) << text;
  }
}

TEST(json_text, what_is_not_json_is_refused_where_it_is) {
  EXPECT_EQ(refused(""), 0U);
  EXPECT_EQ(refused("01"), 1U);
  EXPECT_EQ(refused("-"), 1U);
  EXPECT_EQ(refused("1."), 2U);
  EXPECT_EQ(refused("1e"), 2U);
  EXPECT_EQ(refused("tru"), 0U);
  EXPECT_EQ(refused("[1,]"), 3U);
  EXPECT_EQ(refused("{\"a\"}"), 4U);
  EXPECT_EQ(refused("\"\n\""), 1U);
  EXPECT_EQ(refused(R"("\x")"), 2U);
  EXPECT_EQ(refused(R"("\ud800")"), 7U);
  EXPECT_EQ(refused(R"("\udc00\ud800")"), 7U);
  EXPECT_EQ(refused(R"("\u12")"), 3U);
  EXPECT_EQ(refused("\"a"), 2U);
  EXPECT_EQ(refused(std::string(70, '[')), 65U);
  for (const char* text : {"\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\x80\"",
                           "\"\xe0\x80\x80\"", "\"\xf0\x80\x80\x80\"", "\"\xe2\x82\""}) {
    EXPECT_EQ(refused(text), 1U) << text;
  }
}

TEST(json_text, messages_quote_any_text) {
  EXPECT_EQ(in_quotes("a'b\\\n\x7f"), R"('a\'b\\\x0a\x7f')");
  EXPECT_EQ(in_quotes("\xc3\xa9"), "'\xc3\xa9'");
  EXPECT_EQ(in_quotes("\xff"), "'\\xff'");
  EXPECT_LT(in_quotes(std::string(1000, 'a')).size(), 210U);
}

}  // namespace interlace::checkpoint::json_text_test
