// krun: host
// The local address of AF_VSOCK, from its device (where there is one).
#include "guest.h"
#include <linux/vm_sockets.h>
#include <sys/ioctl.h>
int main(int argc, char **argv) {
    unsigned cid = 77;
    int fd = open("/dev/vsock", O_RDONLY);
    say("open: %s", fd < 0 ? errno_name(errno) : "done");
    TRY(ioctl(fd, IOCTL_VM_SOCKETS_GET_LOCAL_CID, &cid));
    say("cid %u", cid);
    return wrong;
}
