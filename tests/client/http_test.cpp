// Concern: what callers of a gateway are told is true, never too early, and well-formed in every
// style. Method: known answers, and a parser of JSON that is not ours.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <pail/http.hpp>
#include <string>

using namespace std::chrono_literals;
using pail::Decision;
using pail::http::Field;
using pail::http::QuotaPolicy;
using pail::http::Style;

namespace {

Decision admitted() {
  Decision decision;
  decision.status = Decision::Status::admitted;
  decision.limit = 100;
  decision.remaining = 50;
  decision.reset_after = 29'000'000'001ns;
  return decision;
}

Decision refused(std::chrono::nanoseconds retry_after) {
  Decision decision = admitted();
  decision.status = Decision::Status::denied;
  decision.remaining = 0;
  decision.retry_after = retry_after;
  return decision;
}

std::string lines(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) text += field.name + ": " + field.value + "\n";
  return text;
}

constexpr QuotaPolicy kApi{"api", 0, 60s};

}  // namespace

TEST_CASE("the fields of every style") {
  const auto at = std::chrono::system_clock::time_point(1'700'000'000s);
  const auto told = [&](Style style) {
    return lines(pail::http::rate_limit_fields(admitted(), kApi, style, at));
  };
  CHECK(told(Style::draft_11) ==
        "RateLimit-Policy: \"api\";q=100;w=60\nRateLimit: \"api\";r=50;t=30\n");
  CHECK(told(Style::draft_07) ==
        "RateLimit-Policy: 100;w=60\nRateLimit: limit=100, remaining=50, reset=30\n");
  CHECK(told(Style::draft_06) ==
        "RateLimit-Limit: 100\nRateLimit-Remaining: 50\nRateLimit-Reset: 30\n"
        "RateLimit-Policy: 100;w=60\n");
  CHECK(told(Style::x_delta) ==
        "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30\n");
  CHECK(told(Style::x_epoch) ==
        "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 1700000030\n");
}

TEST_CASE("a refusal says when, rounded up, and at least a second") {
  const auto told = [](std::chrono::nanoseconds wait) {
    return pail::http::rate_limit_fields(refused(wait), kApi).back();
  };
  CHECK(told(1ns).name == "Retry-After");
  CHECK(told(1ns).value == "1");
  CHECK(told(1s).value == "1");
  CHECK(told(1'000'000'001ns).value == "2");
  Decision never = refused(Decision::kForever);
  never.status = Decision::Status::never;
  CHECK(pail::http::rate_limit_fields(never, kApi).size() == 2);
  CHECK(pail::http::status(never) == 429);
}

TEST_CASE("429 is the caller's fault, 503 is ours, and what nobody decided is not told") {
  CHECK(pail::http::status(admitted()) == 200);
  CHECK(pail::http::status(refused(1s)) == 429);
  Decision closed = refused(1s);
  closed.source = Decision::Source::fallback_closed;
  CHECK(pail::http::status(closed) == 503);
  CHECK(lines(pail::http::rate_limit_fields(closed, kApi)) == "Retry-After: 1\n");
  Decision open = admitted();
  open.source = Decision::Source::fallback_open;
  CHECK(pail::http::rate_limit_fields(open, kApi).empty());
  open.source = Decision::Source::fallback_local;
  CHECK(pail::http::rate_limit_fields(open, kApi).size() == 2);
}

TEST_CASE("names are strings of structured fields, whatever is in them") {
  const auto policy_field = [](std::string_view name) {
    return pail::http::rate_limit_fields(admitted(), {name, 7, 0s})[0].value;
  };
  CHECK(policy_field("a\"b\\c") == "\"a\\\"b\\\\c\";q=7");
  CHECK(policy_field("a\r\nSet-Cookie: x\xff\0"
                     "") == "\"a??Set-Cookie: x?\";q=7");
}

TEST_CASE("the body is JSON that says which policies refused") {
  const std::array<std::string_view, 3> violated{"per \"second\"", "d\xc3\xa4y\n",
                                                 "\xff\xed\xa0\x80"};
  const auto body =
      nlohmann::json::parse(pail::http::problem_json(refused(1s), violated, "come \\ later"));
  CHECK(body["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded");
  CHECK(body["status"] == 429);
  CHECK(body["detail"] == "come \\ later");
  CHECK(body["violated-policies"][0] == "per \"second\"");
  CHECK(body["violated-policies"][1] == "d\xc3\xa4y\n");
  CHECK(body["violated-policies"][2] == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  Decision closed = refused(1s);
  closed.source = Decision::Source::fallback_closed;
  const auto ours = nlohmann::json::parse(pail::http::problem_json(closed, {}));
  CHECK(ours["status"] == 503);
  CHECK(ours["type"] ==
        "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
  CHECK(ours["violated-policies"].empty());
  CHECK_FALSE(ours.contains("detail"));
}

TEST_CASE("no bytes in a name break the JSON") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const char* tail : {"", "\x80\x80", "x"}) {
        const std::string name =
            std::string{static_cast<char>(first), static_cast<char>(second)} + tail;
        const std::array<std::string_view, 1> violated{name};
        REQUIRE(nlohmann::json::accept(pail::http::problem_json(refused(1s), violated)));
      }
    }
  }
}
