# cmake --install build/release --prefix DIR: the programs (component `programs`), and the client library
# with its headers (component `client`), for find_package(pail) and for pkg-config. tests/package uses it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(PAIL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/pail)

install(TARGETS paild pail pail-bench RUNTIME COMPONENT programs)

set_target_properties(pail_client PROPERTIES EXPORT_NAME client)
set_target_properties(pail_protocol PROPERTIES EXPORT_NAME protocol)
install(TARGETS pail_client pail_protocol EXPORT pail-targets
  ARCHIVE COMPONENT client
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/client/include/pail DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)
# The limiter in process, for who asks for it: find_package(pail COMPONENTS limiter).
foreach(name IN ITEMS limiter engine policy)
  set_target_properties(pail_${name} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS pail_limiter pail_engine pail_policy EXPORT pail-limiter-targets ARCHIVE COMPONENT client)
install(EXPORT pail-limiter-targets NAMESPACE pail:: DESTINATION ${PAIL_PACKAGE_DIR} COMPONENT client)
install(EXPORT pail-targets NAMESPACE pail:: DESTINATION ${PAIL_PACKAGE_DIR} COMPONENT client)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/pail-config.cmake.in
  ${CMAKE_BINARY_DIR}/pail-config.cmake INSTALL_DESTINATION ${PAIL_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pail-config-version.cmake COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_CURRENT_LIST_DIR}/pail.pc.in ${CMAKE_BINARY_DIR}/pail.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/pail-config.cmake ${CMAKE_BINARY_DIR}/pail-config-version.cmake
  DESTINATION ${PAIL_PACKAGE_DIR} COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/pail.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
