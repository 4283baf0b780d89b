#include <pail/error.hpp>

#include <pail/decision.hpp>

namespace pail {

std::string_view name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::connection_refused:
      return "connection_refused";
    case ErrorCode::unreachable:
      return "unreachable";
    case ErrorCode::closed:
      return "closed";
    case ErrorCode::protocol_error:
      return "protocol_error";
    case ErrorCode::version_mismatch:
      return "version_mismatch";
    case ErrorCode::bad_argument:
      return "bad_argument";
    case ErrorCode::unknown_policy:
      return "unknown_policy";
    case ErrorCode::table_full:
      return "table_full";
    case ErrorCode::unauthorized:
      return "unauthorized";
    case ErrorCode::overloaded:
      return "overloaded";
    case ErrorCode::not_supported:
      return "not_supported";
    case ErrorCode::circuit_open:
      return "circuit_open";
    case ErrorCode::too_many_in_flight:
      return "too_many_in_flight";
    case ErrorCode::system:
      return "system";
  }
  return "unknown";
}

std::string_view name(Decision::Status status) noexcept {
  switch (status) {
    case Decision::Status::admitted:
      return "admitted";
    case Decision::Status::denied:
      return "denied";
    case Decision::Status::shed:
      return "shed";
    case Decision::Status::never:
      return "never";
  }
  return "unknown";
}

std::string_view name(Decision::Source source) noexcept {
  switch (source) {
    case Decision::Source::server:
      return "server";
    case Decision::Source::lease:
      return "lease";
    case Decision::Source::limiter:
      return "limiter";
    case Decision::Source::fallback_open:
      return "fallback_open";
    case Decision::Source::fallback_closed:
      return "fallback_closed";
    case Decision::Source::fallback_local:
      return "fallback_local";
  }
  return "unknown";
}

}  // namespace pail
