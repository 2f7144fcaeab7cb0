/* Finds and loads the OpenCL library, and turns its errors into messages. */
#include "backend/opencl/opencl_lib.h"

#include <dlfcn.h>
#include <string.h>

/* The loader of a desktop, or the driver itself; phones have it among the vendor's libraries, with
 * Mali's inside that of the graphics. */
static const char *const libraries[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
#ifdef __ANDROID__
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/vendor/lib64/libPVROCL.so",
#endif
};

static int find_functions(fy_cl *cl, void *library, const char *name, fy_err *e)
{
    static const struct {
        const char *name;
        size_t member;
    } functions[] = {
#define ROW(name, result, parameters) {#name, offsetof(fy_cl, name)},
        FY_CL_FUNCTIONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *const symbol = dlsym(library, functions[i].name);
        if (symbol == NULL)
            return fy_fail(e, FY_EDEVICE,
                           "%s has no function '%s': expected a library of OpenCL 1.2; run without "
                           "--gpu-hot, or update the driver",
                           name, functions[i].name);
        memcpy((char *)cl + functions[i].member, &symbol, sizeof symbol);
    }
    return 0;
}

int fy_cl_load(fy_cl *cl, const char *path, fy_err *e)
{
    const size_t n = path != NULL ? 1 : sizeof libraries / sizeof libraries[0];
    char why[192] = "";
    for (size_t i = 0; i < n; i++) {
        const char *name = path != NULL ? path : libraries[i];
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL)
            return find_functions(cl, library, name, e);
        const char *text = dlerror();
        if (why[0] == '\0' && text != NULL)
            fy_quote(why, sizeof why, fy_span_of(text));
    }
    return fy_fail(e, FY_EDEVICE,
                   "cannot load the OpenCL library: %s; install the GPU's driver with its OpenCL "
                   "part (Debian: ocl-icd-libopencl1 beside it), or run without --gpu-hot",
                   why);
}

int fy_cl_fail(const char *device, const char *call, int32_t rc, fy_err *e)
{
    static const struct {
        int32_t rc;
        const char *means;
    } known[] = {
        {FY_CL_DEVICE_NOT_FOUND, "no device"},
        {-2, "device not available"},
        {-3, "no compiler"},
        {FY_CL_MEM_OBJECT_ALLOCATION_FAILURE, "out of device memory"},
        {-5, "out of resources, or the device was lost"},
        {FY_CL_OUT_OF_HOST_MEMORY, "out of memory"},
        {FY_CL_BUILD_PROGRAM_FAILURE, "the kernels were not compiled"},
        {-14, "a command failed"},
        {-36, "invalid command queue"},
        {-54, "work-group size"},
        {FY_CL_PLATFORM_NOT_FOUND, "no driver is installed"},
    };
    const char *means = "see cl.h";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        means = known[i].rc == rc ? known[i].means : means;
    const bool no_room =
        rc == FY_CL_MEM_OBJECT_ALLOCATION_FAILURE || rc == FY_CL_OUT_OF_HOST_MEMORY;
    return fy_fail(e, no_room ? FY_EFIT : FY_EDEVICE, "OpenCL%s%s: %s gave error %d (%s); %s",
                   device[0] != '\0' ? ", " : "", device, call, rc, means,
                   no_room ? "make fewer neurons hot (ferry plan --hot), or run without --gpu-hot"
                           : "run without --gpu-hot, or update the driver");
}
