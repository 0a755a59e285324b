/* docs/errors/EO-*.md inside the program (made by CMake from the files). */
#ifndef EO_CLIENT_CLI_ERROR_PAGES_H
#define EO_CLIENT_CLI_ERROR_PAGES_H

const char *error_page(int code); /* "" when there is none; a test sees to it that there is */

#endif
