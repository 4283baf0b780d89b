// The first exchange of a connection: HELLO and its answer. One thread, before anybody else knows
// the connection, so without its mutex.
#include <array>
#include <string>
#include <system_error>

#include "client/src/connection.hpp"
#include "protocol/codec.hpp"

namespace pail::internal {

Result<void> Connection::greet(const ConnectionOptions& options, Time deadline) {
  protocol::Hello hello;
  hello.tag = 1;
  hello.token = options.token;
  hello.client_name = options.client_name;
  std::array<std::byte, protocol::kMaxHelloBytes> bytes;
  const std::size_t size = protocol::encode(hello, bytes);

  clock_.sent_at = Clock::now();
  if (auto sent = send_greeting(protocol::Bytes(bytes).first(size), deadline, options.cancel);
      !sent)
    return sent;
  return receive_greeting(deadline, options.cancel);
}

Result<void> Connection::send_greeting(protocol::Bytes hello, Time deadline, Bell* cancel) {
  while (!hello.empty()) {
    const auto transfer = socket_.send(hello);
    hello = hello.subspan(transfer.bytes);
    if (transfer.outcome == Socket::Outcome::failed) {
      return tl::unexpected(
          Error{ErrorCode::closed, where("the connection broke while greeting: ") +
                                       std::system_category().message(transfer.error)});
    }
    if (transfer.outcome == Socket::Outcome::would_block &&
        !socket_.wait_for(false, true, deadline, cancel).writable) {
      return tl::unexpected(
          Error{ErrorCode::timeout, where("the greeting could not be sent in time")});
    }
  }
  return {};
}

Result<void> Connection::receive_greeting(Time deadline, Bell* cancel) {
  for (;;) {
    if (!socket_.wait_for(true, false, deadline, cancel).readable) {
      return tl::unexpected(
          Error{ErrorCode::timeout,
                where("connected, but the greeting was not answered in time (is it a Pail server, "
                      "and is it running?)")});
    }
    const auto transfer = socket_.receive(receive_room_);
    if (transfer.outcome == Socket::Outcome::would_block) continue;
    if (transfer.outcome != Socket::Outcome::progress) {
      return tl::unexpected(
          Error{ErrorCode::closed, where("the peer closed the connection instead of answering the "
                                         "greeting (is it a Pail server?)")});
    }
    frames_.feed(protocol::Bytes(receive_room_).first(transfer.bytes));
    const auto frame = frames_.next();
    if (const auto error = frames_.error()) {
      return tl::unexpected(Error{ErrorCode::protocol_error, where("the peer is no Pail server: ") +
                                                                 std::string(error->reason)});
    }
    if (frame) {
      auto greeted = on_greeting(*frame);
      // What may follow in the same chunk are the server's notices.
      while (const auto notice = frames_.next()) {
        if (greeted && !failure_) on_frame(*notice);
      }
      frames_.end_chunk();
      if (greeted && failure_) return tl::unexpected(*failure_);
      return greeted;
    }
    frames_.end_chunk();
  }
}

Result<void> Connection::on_greeting(protocol::Bytes frame) {
  const auto reply = protocol::decode_hello_reply(frame);
  if (!reply) {
    return tl::unexpected(Error{ErrorCode::protocol_error, where("the peer is no Pail server: ") +
                                                               std::string(reply.error().reason)});
  }
  const std::string said =
      reply->error.empty() ? std::string(protocol::name(reply->status)) : std::string(reply->error);
  const bool version_differs = reply->version != protocol::kVersion;
  if (version_differs || reply->status == protocol::Status::not_supported) {
    return tl::unexpected(Error{ErrorCode::version_mismatch,
                                where("the server speaks protocol version ") +
                                    std::to_string(reply->version) + ", this client version " +
                                    std::to_string(protocol::kVersion) + ": " + said});
  }
  switch (reply->status) {
    case protocol::Status::ok:
      break;
    case protocol::Status::unauthorized:
      return tl::unexpected(
          Error{ErrorCode::unauthorized, where("the server refuses us: ") + said});
    case protocol::Status::overloaded:
      return tl::unexpected(Error{ErrorCode::overloaded, where("the server refuses us: ") + said});
    case protocol::Status::denied:
    case protocol::Status::shed:
    case protocol::Status::never:
    case protocol::Status::table_full:
    case protocol::Status::expired:
    case protocol::Status::unknown_policy:
    case protocol::Status::bad_request:
    case protocol::Status::not_supported:
      return tl::unexpected(
          Error{ErrorCode::protocol_error, where("the server refuses the greeting: ") + said});
  }
  clock_.server_us = reply->clock_us;
  return {};
}

}  // namespace pail::internal
