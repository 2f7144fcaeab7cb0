/* Stands for a Java VM: loads a JNI library, calls org.ferry.Ferry's natives in it and prints what
 * they tell.
 *
 *     jni_try LIBRARY.so MODEL.gguf PROMPT N
 *
 * Exit status 1 with the exception's message when one was thrown. */
#include <dlfcn.h>
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __ANDROID__
#define JNI_TABLE JNINativeInterface
#else
#define JNI_TABLE JNINativeInterface_
#endif

typedef struct {
    jsize n;
    char *bytes; /* owned */
} array;

static jarray new_array(const void *bytes, size_t n)
{
    array *a = malloc(sizeof *a);
    a->n = (jsize)n;
    a->bytes = calloc(n + 1, 1);
    if (bytes != NULL)
        memcpy(a->bytes, bytes, n);
    return (jarray)(void *)a;
}

static array *array_of(jarray a)
{
    return (array *)(void *)a;
}

static jclass find_class(JNIEnv *env, const char *name)
{
    (void)env;
    return (jclass)(void *)name;
}

static jint throw_new(JNIEnv *env, jclass type, const char *message)
{
    (void)env;
    fprintf(stderr, "%s: %s\n", (const char *)(void *)type, message);
    exit(1);
}

static jsize get_length(JNIEnv *env, jarray a)
{
    (void)env;
    return array_of(a)->n;
}

static void get_region(JNIEnv *env, jbyteArray a, jsize first, jsize n, jbyte *to)
{
    (void)env;
    memcpy(to, array_of(a)->bytes + first, (size_t)n);
}

static jbyteArray new_bytes(JNIEnv *env, jsize n)
{
    (void)env;
    return new_array(NULL, (size_t)n);
}

static void set_region(JNIEnv *env, jbyteArray a, jsize first, jsize n, const jbyte *from)
{
    (void)env;
    memcpy(array_of(a)->bytes + first, from, (size_t)n);
}

int main(int argc, char **argv)
{
    static const struct JNI_TABLE functions = {
        .FindClass = find_class,
        .ThrowNew = throw_new,
        .GetArrayLength = get_length,
        .GetByteArrayRegion = get_region,
        .NewByteArray = new_bytes,
        .SetByteArrayRegion = set_region,
    };
    const struct JNI_TABLE *vm = &functions;
    JNIEnv *env = (JNIEnv *)&vm;
    jlong (*open_model)(JNIEnv *, jclass, jbyteArray);
    jbyteArray (*tell)(JNIEnv *, jclass, jlong, jbyteArray, jint);
    void (*close_model)(JNIEnv *, jclass, jlong);
    void *lib = argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (lib == NULL) {
        fprintf(stderr, "%s\n",
                argc == 5 ? dlerror() : "usage: jni_try LIBRARY.so MODEL.gguf PROMPT N");
        return 2;
    }
    *(void **)&open_model = dlsym(lib, "Java_org_ferry_Ferry_open");
    *(void **)&tell = dlsym(lib, "Java_org_ferry_Ferry_tell");
    *(void **)&close_model = dlsym(lib, "Java_org_ferry_Ferry_close");
    if (open_model == NULL || tell == NULL || close_model == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    const jlong handle = open_model(env, NULL, new_array(argv[2], strlen(argv[2])));
    for (int i = 0; i < 2; i++) { /* a second text does not see the first */
        const array *text =
            array_of(tell(env, NULL, handle, new_array(argv[3], strlen(argv[3])), atoi(argv[4])));
        printf("%.*s\n", (int)text->n, text->bytes);
    }
    close_model(env, NULL, handle);
    return 0;
}
