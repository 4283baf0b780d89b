# Turns the ```cpp block of README.md into a program: the includes, and the rest as the body of main.
# The server's address comes from the environment.
/^```cpp$/ { inside = 1; blocks++; next }
/^```$/ { inside = 0; next }
!inside { next }
/^#include/ { print; next }
!begun { print "#include <cstdlib>\nint main() {"; begun = 1 }
{ gsub(/"127\.0\.0\.1:7245"/, "std::getenv(\"PAIL_README_SERVER\")"); print }
END {
  if (blocks != 1) { print "#error README.md should have one cpp block"; exit }
  # A decision may be too late for its 5 ms on a busy machine, and the snippet deals with that.
  print "  return client->usable() ? 0 : 1;\n}"
}
