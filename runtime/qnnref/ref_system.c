/* The system library: what a binary holds. */
#include "qnnref/ref_impl.h"
