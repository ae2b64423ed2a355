/* A stand-in for the CUDA driver library: says what DOUBLE_DRIVER and DOUBLE_DEVICES tell it to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuDriverGetVersion(int *version) {
    *version = number("DOUBLE_DRIVER", 13000);
    return *version < 0 ? -*version : 0; /* a negative version is an error code */
}

int cuInit(unsigned flags) {
    (void)flags;
    return number("DOUBLE_DEVICES", 1) > 0 ? 0 : 100;
}

int cuDeviceGetCount(int *count) { return *count = number("DOUBLE_DEVICES", 1), 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int size, int device) {
    return snprintf(name, (size_t)size, "Double %d", device), 0;
}
int cuDeviceGetUuid(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i * 16 + device);
    return 0;
}
int cuDeviceGetPCIBusId(char *bus, int size, int device) {
    return snprintf(bus, (size_t)size, "0000:%02x:00.0", device + 1), 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 1u << 30, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    return (void)device, *value = attribute == 16 ? 132 : 0, 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = device == 0, 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    return (void)device, *context = (void *)8, 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxPushCurrent_v2(void *context) { return (void)context, 0; }
int cuCtxPopCurrent_v2(void **context) { return *context = (void *)8, 0; }
int cuCtxSynchronize(void) { return 0; }
int cuGetErrorString(int code, const char **text) {
    return *text = code == 100 ? "no CUDA-capable device is detected" : "double refuses", 0;
}
