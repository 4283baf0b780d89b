#include "server/io/backend.hpp"

#include "server/io/epoll_backend.hpp"
#include "server/io/uring_backend.hpp"

namespace pail::io {

tl::expected<std::unique_ptr<Backend>, IoError> make_backend(Kind kind, const Sizes& sizes) {
  switch (kind) {
    case Kind::uring:
      return make_uring(sizes);
    case Kind::epoll:
      return make_epoll(sizes);
  }
  return tl::unexpected(IoError{});
}

}  // namespace pail::io
