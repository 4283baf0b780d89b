// Linked into a test program that makes thousands of engines: without huge pages, which the kernel
// would have to zero for each, and of which each would use a few bytes.
#include <sys/prctl.h>

namespace pail::test {
namespace {

[[maybe_unused]] const int kNoHugePages = prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);

}  // namespace
}  // namespace pail::test
