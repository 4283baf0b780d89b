# Every package the project uses, all from Debian; docs/decisions.md names the reason for each.
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)            # flags
find_package(tl-expected REQUIRED)      # results
find_package(fmt REQUIRED)              # text
find_package(nlohmann_json REQUIRED)    # JSON
find_package(OpenSSL REQUIRED)          # digests of tokens
find_package(spdlog REQUIRED)           # the server's log
find_path(PAIL_TOMLPLUSPLUS_DIR toml++/toml.h REQUIRED)  # the policy file; header-only
find_package(PkgConfig REQUIRED)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
if(PAIL_BUILD_TESTS)
  find_package(doctest REQUIRED)        # tests
endif()
