// printf is built into the compiler; files are the host's.
#pragma once
#include <stddef.h>
typedef struct __forebay_file FILE;
