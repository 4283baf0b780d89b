#include "protocol/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace pail::protocol {
namespace {

class Descriptor {
 public:
  // Without waiting: a FIFO that nobody writes to would be waited for when it is opened already.
  explicit Descriptor(const std::string& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

tl::unexpected<std::string> unreadable(int code) {
  return tl::unexpected("cannot be read: " + std::generic_category().message(code));
}

}  // namespace

tl::expected<RegularFile, std::string> read_regular_file(const std::string& path,
                                                         std::span<char> buffer) {
  const Descriptor file(path);
  if (file.number() < 0) return unreadable(errno);
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return unreadable(errno);
  if (S_ISDIR(status.st_mode)) {
    return tl::unexpected(std::string("is a directory, not a regular file"));
  }
  if (!S_ISREG(status.st_mode)) return tl::unexpected(std::string("is not a regular file"));
  std::size_t size_bytes = 0;
  while (size_bytes < buffer.size()) {
    const ssize_t got =
        ::read(file.number(), buffer.data() + size_bytes, buffer.size() - size_bytes);
    if (got == 0) return RegularFile{{buffer.data(), size_bytes}, status.st_mode};
    if (got > 0) {
      size_bytes += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      return unreadable(errno);
    }
  }
  return tl::unexpected("is larger than " + std::to_string(buffer.size() - 1) + " bytes");
}

}  // namespace pail::protocol
