/* The version of the program and of the library. */
#ifndef FY_BASE_VERSION_H
#define FY_BASE_VERSION_H

#define FERRY_VERSION "0.1.0"

#endif
