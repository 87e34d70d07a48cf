// A netlink dump of links and addresses has the loopback device: rtnetlink(7).
#include "guest.h"
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s = MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)), links = 0, lo = 0, done = 0;
    struct {
        struct nlmsghdr h;
        struct rtgenmsg g;
    } q = {{sizeof(q), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    static char b[65536];
    MUST(send(s, &q, sizeof(q), 0));
    while (!done) {
        int n = MUST(recv(s, b, sizeof(b), 0));
        for (struct nlmsghdr *h = (void *)b; NLMSG_OK(h, (unsigned)n); h = NLMSG_NEXT(h, n)) {
            done |= h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR;
            if (h->nlmsg_type == RTM_NEWLINK) {
                struct ifinfomsg *i = NLMSG_DATA(h);
                links++, lo += !!(i->ifi_flags & IFF_LOOPBACK);
            }
        }
    }
    EXPECT(links >= 1 && lo == 1);
    struct ifconf c = {.ifc_len = sizeof(b), .ifc_buf = b};
    TRY(ioctl(s, SIOCGIFCONF, &c));
    struct ifreq r = {.ifr_name = "lo"};
    TRY(ioctl(s, SIOCGIFFLAGS, &r)), say("loopback %d", !!(r.ifr_flags & IFF_LOOPBACK));
    EXPECT(if_nametoindex("lo") == 1);
    strcpy(r.ifr_name, "nothing0"), TRY(ioctl(s, SIOCGIFFLAGS, &r));
    return wrong;
}
